"""Rules about how calls, their arguments and the text around them fit together. `unspool check` tries them."""

import re
from collections.abc import Iterator

from ..compiling import marked
from ..file import Dialect
from ..patterns import plain_name, solid
from ..template import id_pattern, unstarted
from .proposals import with_arguments
from .rule import Found, Rules, found, parts

CALLS = Rules()


@CALLS.row(
    "content, preamble, calls", "{template!r} closes with white space only", ", which content may contain too",
    "write {key} = {proposal!r} and calls = {calls!r}, or a closing with a marker",
)  # fmt: skip
def frames_that_white_space_closes(d: Dialect) -> Iterator[Found]:
    """Where calls may follow: the next part's opening ends such a frame."""
    for key, t in parts(d, "content", "preamble") if d.call else ():
        if t.before and not t.after and t.inner_trail:
            calls = t.inner_trail + d.calls[0].text.lstrip()
            yield found(key, template=t, key=key, proposal=t.text.removesuffix(t.inner_trail), calls=calls)


@CALLS.row(
    "call, calls", "{template!r} ends with white space, and no marker of `calls` follows it",
    instead="write it into `calls`, as in {proposal!r}, and into `separator.calls`",
)  # fmt: skip
def white_space_after_calls(d: Dialect) -> Iterator[Found]:
    for t in d.call:
        if t.trail and not all(block.closing for block in d.calls):
            yield found("call", template=t, proposal=f"}}{t.trail}".join(d.calls[0].text.rsplit("}", 1)))


@CALLS.row(
    "calls, call, anywhere",
    "{template!r} opens with {opening!r}, which has no letter or digit (a fence's language is ignored)",
    ", so it counts only with declared tools, although `call` is marked",
    "write anywhere = [{opening!r}] if it counts anywhere",
)
def marked_calls_in_an_unmarked_block(d: Dialect) -> Iterator[Found]:
    for block, call in zip(d.calls[:1], d.call[:1], strict=False):
        weak = block.opening.strip() and not marked(block.before, d.anywhere)
        if weak and marked(call.before, d.anywhere):
            yield found("calls", template=block, opening=block.opening.strip())


@CALLS.row(
    "call, calls", "{template!r} opens as a JSON list of calls does, and such a list would end after its first call",
    instead="write the markers into `calls`, as in {proposal!r}",
)  # fmt: skip
def calls_that_each_open_a_list(d: Dialect) -> Iterator[Found]:
    bare = [b for b in d.calls if not solid(unstarted(b.opening, d.start))]
    for t in d.call if bare else ():
        before, after = t.text.partition("{")[0], t.text.rpartition("}")[2]
        if t.object is not None and solid(before) == "[":
            yield found(
                "call", template=t, proposal=f"{before}{{call}}{after}".join(re.split(r"\{calls?\}", bare[0].text))
            )


@CALLS.row(
    "call", "{template!r} has no {{arguments}}, and the first template writes the calls of all tools",
    instead="write first how the model writes arguments, as in call = [{proposal!r}, {template!r}]",
)  # fmt: skip
def calls_without_arguments(d: Dialect) -> Iterator[Found]:
    for t in d.call[:1]:
        if not t.body:
            yield found("call", template=t, proposal=with_arguments(t, markup=bool(d.argument)))


@CALLS.row(
    "separator, call, calls", "{template!r} closes with nothing, and {separator!r} is between two calls",
    ": if brackets are missing, it could be part of the arguments",
    "let `call` close with a marker, or begin with a word",
)  # fmt: skip
def a_separator_that_arguments_could_contain(d: Dialect) -> Iterator[Found]:
    between = d.separator.calls
    for t in d.call[:1] if between.strip() and d.argument_format == "json" else ():
        bare = not t.closing and t.object is None and d.calls[0].body == "calls"
        if bare and not marked(t.before, d.anywhere):
            yield found("separator", template=t, separator=between)


@CALLS.row(
    "separator, call, calls", "{template!r} begins with a field, and nothing is between two calls",
    ": after a call without arguments, the next one would be part of its name",
    "write what is between them, as in separator.calls = '\\n'",
)  # fmt: skip
def calls_that_nothing_separates(d: Dialect) -> Iterator[Found]:
    for t in d.call[:1] if not d.separator.calls else ():
        bare = not t.closing and t.object is None and d.calls[0].body == "calls"
        if bare and t.steps[0].name:
            yield found("separator", template=t)


@CALLS.row(
    "call, calls", "{template!r} begins with {{id}}, so any text before a call is its id",
    instead="write a marker before it, as in {proposal!r}, or open `calls` with one",
)  # fmt: skip
def bare_calls_that_begin_with_their_id(d: Dialect) -> Iterator[Found]:
    bare = any(not solid(unstarted(block.opening, d.start)) for block in d.calls)
    for t in d.call if bare else ():
        if t.object is None and t.steps[0].name == "id":
            yield found("call", template=t, proposal=f"<call>{t.text}")


@CALLS.row(
    "call", "{template!r} closes with {closing!r}, and {first!r} may be in a name",
    ": without arguments, it is part of the name", "separate them, as in {proposal!r}",
)  # fmt: skip
def a_closing_glued_to_the_name(d: Dialect) -> Iterator[Found]:
    for t in d.call:
        if "{name}{arguments}" in t.text and t.closing and plain_name(t.closing[0]):
            proposal = t.text.replace("{name}{arguments}", "{name} {arguments}")
            yield found("call", template=t, closing=t.closing, first=t.closing[0], proposal=proposal)


@CALLS.row(
    "id, examples", "{id!r} does not match `id`, {template!r}", instead="write `id` so that it matches the model's ids",
)  # fmt: skip
def ids_that_no_grammar_generates(d: Dialect) -> Iterator[Found]:
    if not d.call or not any(step.name == "id" for step in d.call[0].steps):
        return
    for i, example in enumerate(d.examples):
        for j, call in enumerate(example.tool_calls):
            if call.id is not None and not re.fullmatch(id_pattern(d.id, call.name), call.id):
                yield found(f"examples[{i}].tool_calls[{j}].id", id=call.id, template=d.id)


@CALLS.row("examples, call", "none contains a call, though the file has `call`", instead="add one with `tool_calls`")
def examples_without_calls(d: Dialect) -> Iterator[Found]:
    if d.call and not any(example.tool_calls for example in d.examples):
        yield found("examples")
