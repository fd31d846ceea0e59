"""The renderer writes what the family's own chat template writes, byte for byte."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import pytest

import unspool
from unspool import Dialect, detect_dialect

from .engine import compile_template
from .table import DIFFERENCES, SOURCES, UNTEMPLATED, Difference, Source
from .turns import CASES, TOOLS, Message, ends, openai, written

pytestmark = pytest.mark.templates

RUNS = [
    (source, case)
    for source in SOURCES
    for case, message in CASES.items()
    if "reasoning" not in message or unspool.get_dialect(source.dialect).reasoning
]


PLACEHOLDER = "(nothing)"


@cache
def _compiled(path: Path, sandboxed: bool) -> jinja2.Template:
    return compile_template(path, sandboxed=sandboxed)


def template_of(source: Source, folders: dict[str, Path]) -> jinja2.Template:
    return _compiled(source.path(folders), source.sandboxed)


def expected(dialect: Dialect, message: Message, differences: list[Difference]) -> str:
    """The text of the renderer, with the known differences applied."""
    for d in differences:
        message = {k: v for k, v in message.items() if k not in d.without}
        if d.reasoning:
            message["reasoning"] = PLACEHOLDER
        for key, at in d.writes.items():
            templates = list(getattr(dialect, key))
            templates.insert(0, templates.pop(at))
            changes: dict[str, Any] = {key: tuple(templates)}
            dialect = msgspec.structs.replace(dialect, **changes)
    text = unspool.render(openai(message, dialect), dialect, tools=TOOLS, stage="content")
    for d in differences:
        if d.reasoning:
            text = text.replace(PLACEHOLDER, "") if d.reasoning == "empty" else text.partition(PLACEHOLDER)[2]
        for ours, theirs in d.swap:
            text = text.replace(ours, theirs)
        if d.indented:
            marker, bracket, calls = text.partition("[")
            text = marker + json.dumps(json.loads(bracket + calls), ensure_ascii=False, indent=4)
        text = d.text or d.before + text + d.behind
    return text


def agree(dialect: Dialect, theirs: str, message: Message, differences: list[Difference]) -> bool:
    ours = expected(dialect, message, differences)
    return theirs.startswith(ours) and ends(dialect, theirs[len(ours) :])


@pytest.mark.parametrize(("source", "case"), RUNS, ids=[f"{s.dialect}-{s.file}-{c}" for s, c in RUNS])
def test_a_turn_is_written_as_the_template_writes_it(source: Source, case: str, templates: dict[str, Path]) -> None:
    dialect = unspool.get_dialect(source.dialect)
    template = template_of(source, templates)
    known = [d for d in DIFFERENCES if d.concerns(source.file, case)]
    refusals = [d for d in known if d.error]
    if refusals:
        with pytest.raises(jinja2.TemplateError, match=refusals[0].error):
            written(source, template, dialect, CASES[case])
        return
    theirs = written(source, template, dialect, CASES[case])
    if not agree(dialect, theirs, CASES[case], known):
        ours = expected(dialect, CASES[case], known)
        assert theirs == ours, "the template writes otherwise"
    for d in known if not any(k.text for k in known) else ():
        others = [k for k in known if k is not d]
        assert not agree(dialect, theirs, CASES[case], others), f"a known difference is no more: {d.reason}"


def test_every_known_difference_is_looked_for() -> None:
    for d in DIFFERENCES:
        assert d.reason
        for file in d.files:
            assert any(s.file == file and d.concerns(file, case) for s, case in RUNS), f"{file}: {d.reason}"


def test_every_dialect_has_a_template_or_a_reason() -> None:
    names = {d.name for d in unspool.list_dialects()}
    templated = {s.dialect for s in SOURCES}
    assert templated <= names
    assert not templated & set(UNTEMPLATED)
    assert templated | set(UNTEMPLATED) == names


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.dialect}-{s.file}")
def test_the_dialect_is_detected_from_the_template(source: Source, templates: dict[str, Path]) -> None:
    text = source.text(templates)
    found = detect_dialect(chat_template=text)
    if source.unmarked:
        assert source.dialect not in [c.dialect for c in found[:1]], "the template is recognized now"
    else:
        assert found[0].dialect == source.dialect, found[:3]
