"""The loader refuses files whose outputs could not be read back, with the reason and an alternative."""

import pytest

from unspool import DialectError

from ...support import dialect_of

# ruff: noqa: E501 (a table)
XML = 'call = "<c {name}>{arguments}</c>"\n'


@pytest.mark.parametrize(
    ("keys", "why", "proposal"),
    [
        ('call = "<c>{arguments}{name}</c>"', "call: '<c>{arguments}{name}</c>' has {arguments} before {name}", ""),
        (XML + 'argument = "<a>{value}</a>{key}"', "argument: '<a>{value}</a>{key}' has {value} before {key}", ""),
        ('call = "<c>{name}{{arguments}}</c>"', "doubles the braces", "<c>{name}{arguments}</c>"),
        ('call = "<c>{name}{arguments}</c>"\narguments = "python"', "has {name}{arguments} glued", "<c>{name}: {arguments}</c>"),
        ('call = "<c>{name}{arguments}</c>"\nargument = "a={key}|{value};"', "has {name}{arguments} glued", ""),
        ('call = "<c>{name}{id} {arguments}</c>"', "has {name}{id} glued", "<c>{name}: {id} {arguments}</c>"),
        ('call = "<c>{name}#{id} {arguments}</c>"', "has nothing but white space between {id} and {arguments}", ""),
        (XML + 'argument = "<{key} {value}>"', "has nothing but white space between {key} and {value}", "<{key}: {value}>"),
        (XML + 'argument = "  @{key}: {value}\\n"', "closes with white space only, which a value may contain too", "  @{key}: {value} <end>\\n"),
        ('reasoning = "Thoughts:\\n{reasoning}\\n\\n"', "closes with white space only", "Thoughts:\\n{reasoning} <end>\\n\\n"),
        (XML + 'argument = "{key}={value};"', "begins with a field, so any text is a key", "@{key}={value};"),
        ("call = '<{name}{arguments}/>'\nargument = ' {key}=\"{value}\"'", "argument: ' {key}=\"{value}\"' is an attribute of a tag", ""),
        ("call = '<c {arguments} n=\"{name}\"/>'\nargument = '{key}=\"{value}\"'", "a tag of its own, as in call = '<call name=\"{name}\">{arguments}</call>' with argument = '<arg {key}=\"{value}\"/>'", ""),
        (XML + "argument = '@{key}=\"{value}\"'", "closes with '\"', which JSON and texts contain too", '@{key}="{value}"/>'),
        (XML + 'argument = "[{key}] {value} ]\\n"', "closes with ']', which JSON and texts contain too", "[{key}] {value} ]/>\\n"),
        (XML + "argument = '* {key}: {value} \\'", "closes with '\\\\', which JSON and texts contain too", ""),
        (XML.replace("<c {name}>", "{id}|{name}|") + 'argument = "<{key}>{value}</{key}>"', "so any text after a call is another one", ""),
        ('reasoning = "<a>{reasoning}</a>"\ncontent = "<a>{content}</b>"', "content: '<a>{content}</b>' begins like `reasoning`", "<content>{content}</b>"),
        ('reasoning = "<a>{reasoning}</a>"\ncalls = "<a>{calls}</b>"\n' + XML, "calls: '<a>{calls}</b>' begins like `reasoning`", "<calls>{calls}</b>"),
        ('reasoning = "<c {reasoning}</a>"\n' + XML, "call: '<c {name}>{arguments}</c>' begins like `reasoning`", "<my-call {name}>{arguments}</c>"),
        ('reasoning = "* {reasoning} *"\ncontent = "* {content}"', "content: '* {content}' begins like `reasoning`", "<content>* {content}"),
        ('start = "<s>"\ncontent = "<s>{content}</e>"\ncall = "<s>{name} {arguments}</e>"', "begins like `content`", "<s><call>{name} {arguments}</e>"),
        (XML + 'argument = " {key}: {value}\\n"', "closes with white space only", " @{key}: {value} <end>\\n"),
        ('call = "<c>{{arguments}}</c>"', "needs {name}", '<c>{"name": "{name}", "arguments": {arguments}}</c>'),
        ('call = "\\n<c {name}>{arguments}</c>"', "begins with white space, and no marker of `calls`", "\\n{calls}"),
        ('reasoning = "{reasoning}</t>"', "has no opening: write a marker before {reasoning}", "<t>{reasoning}</t>"),
        ('call = "<c>{name}{arguments}|{id}</c>"', "has {id} after {arguments}", ""),
        ("call = '{\"name\": \"{name}\", \"arguments\": {arguments}, \"id\": \"{id}\"}'", "leave {id} out; members", ""),
        ('call = "<c>{name}{arguments}</c>"\nquote = "\'"', "is one character, which strings contain too", ""),
        ('call = "<c>{name}{arguments}</c>"\nquote = "\'\'"', "ends as it begins", ""),
        ('end = ["."]\n' + XML, "is one character, which text may also end with", ""),
        ('call = "{name}:\\n{arguments}"\nargument = "  {key} = {value}\\n"', "closes with white space only, which a value may contain too", "  @{key} = {value} <end>\\n"),
        ('call = "{name}:\\n{arguments}"\nargument = "{key} = {value}"\nseparator.arguments = "\\n"', "has no closing", "@{key} = {value}<end>"),
        ('reasoning = "Hm: {reasoning}<end>"\ncall = "# {name}:\\n{arguments}"\nargument = "  {key} = {value}\\n"', "closes with white space only", "  @{key} = {value} <end-argument>\\n"),
        ('base = "no-such"', "mine.toml: base: there is no dialect 'no-such'", ""),
    ],
)  # fmt: skip
def test_an_impossible_file_is_refused_with_a_reason_and_a_proposal(keys: str, why: str, proposal: str) -> None:
    with pytest.raises(DialectError) as caught:
        dialect_of(keys)
    text = str(caught.value)
    assert text.startswith("mine.toml: ")
    assert why in text
    assert f"as in '{proposal}'" in text or f"write '{proposal}'" in text or not proposal


@pytest.mark.parametrize(
    "keys",
    [
        'call = "<c>{name}{arguments}</c>"',  # an object begins with a brace, which no name contains
        'call = "<c>{name}{arguments}</c>"\nargument = "<{key}>{value}</{key}>"',
        'call = "<c>{name} {arguments}</c>"\narguments = "python"',
        'call = "<c>{name} [{id}] {arguments}</c>"',
        'calls = "<calls>{calls}</calls>"\ncall = "\\n<c {name}>{arguments}</c>"',
        'calls = "<c>{call}</c>"\ncall = "{id}|{name}|{arguments}"\nargument = "<{key}>{value}</{key}>"',
    ],
)
def test_a_file_that_resembles_an_impossible_one_but_is_readable_is_accepted(keys: str) -> None:
    assert dialect_of(keys).call
