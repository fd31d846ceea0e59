"""Calls in forms that no shipped dialect writes first keep every promise."""

import json
from pathlib import Path

import pytest

import unspool
from unspool.check import check_dialect, read_file

FORMS = {
    "an object that is a member of another": (
        'id = "c{number}"\n'
        """call = '<do>{"id": "{id}", "function": {"name": "{name}", "arguments": {arguments}}}</do>'""",
        '<do>{"id": "c1", "function": {"name": "f", "arguments": {"a": "}}"}}}</do>',
    ),
    "a dict of Python": (
        """call = "<do>{'name': '{name}', 'arguments': {arguments}}</do>\"""",
        "<do>{'name': 'f', 'arguments': {'a': '}}'}}</do>",
    ),
    "arguments in square brackets": (
        """call = "[do {name}]{arguments}[/do]"\nargument = "[{key}]{value}[/{key}]\"""",
        "[do f][a]}}[/a][/do]",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_an_unusual_form_keeps_every_promise(tmp_path: Path, form: str) -> None:
    keys, raw = FORMS[form]
    path = tmp_path / "mine.toml"
    example = (
        f"\n[[examples]]\nraw = {json.dumps(raw)}\ntool_calls = [{{ name = 'f', arguments = {{ a = '}}}}' }} }}]\n"
    )
    path.write_text(f'name = "mine"\nend = ["<eot>"]\n{keys}\n\n[[examples]]\nraw = "Hi."\ncontent = "Hi."\n{example}')
    dialect = read_file(path)
    assert check_dialect(dialect) == []
    assert unspool.parse(f"Hi.{raw}", dialect).content == "Hi."
