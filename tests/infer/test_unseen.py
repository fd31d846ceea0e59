"""A proven dialect reads texts that inference has not seen, as the template itself writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.support import run
from unspool import Dialect, Message
from unspool.infer import Limits
from unspool.infer.rendering import Renderer

from . import invented
from .test_infer import proven

TEXT = {"type": "string"}
PROPERTIES: dict[str, dict[str, Any]] = {
    "book_flight": {
        "origin": TEXT,
        "seats": {"type": "integer"},
        "notes": {"type": "array", "items": TEXT},
        "options": {"type": "object", "properties": {"price": {"type": "number"}}},
        "direct": {"type": "boolean"},
    },
    "fs.read-file": dict.fromkeys(("path", "name", "Max-N", "two words", "größe", "2nd"), TEXT),
    "clock": {},
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": n, "description": "Does.", "parameters": {"type": "object", "properties": p}},
    }
    for n, p in PROPERTIES.items()
]
USER = {"role": "user", "content": "Where to?"}
Said = tuple[str, str, list[tuple[str, dict[str, Any]]]]

SAID: dict[str, Said] = json.loads(Path(__file__).with_name("unseen.json").read_text(encoding="utf-8"))
"""Turns: a thought, content, and the names and arguments of calls."""


def message(said: Said) -> dict[str, Any]:
    thought, content, calls = said
    sent: dict[str, Any] = {"role": "assistant", "content": content}
    sent |= dict.fromkeys(("reasoning_content", "thinking"), thought) if thought else {}
    if calls:
        sent["tool_calls"] = [
            {"id": f"Abcdefgh{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)
        ]
    return sent


def read(dialect: Dialect, prompt: str, chunks: list[str]) -> Message:
    message, _ = run(dialect, chunks, tools=TOOLS, prompt=prompt)
    return message


OTHERWISE = ("reasoning-that-only-closes", "a-last-turn-to-be-gone-on-with", "spaces-by-place")
"""Families whose template writes the last turn differently from its generation."""


@pytest.mark.parametrize("family", [f for f in invented.FAMILIES if f not in OTHERWISE])
def test_the_inferred_dialect_reads_what_the_template_writes_of_other_texts(family: str) -> None:
    dialect = proven(family)
    renderer = Renderer(invented.TEMPLATES[family], {"bos_token": "", "eos_token": "</eos>"}, Limits())
    asked = [{"messages": [USER], "tools": TOOLS, "add_generation_prompt": True}]
    asked += [{"messages": [USER, message(s)], "tools": TOOLS, "add_generation_prompt": False} for s in SAID.values()]
    prompt, *shown = renderer.render(asked)
    read_back = 0
    for said, rendered in zip(SAID.values(), shown, strict=True):
        thought, content, calls = said
        if rendered.error or (thought and thought not in rendered.text):
            continue  # the template has no such turn
        same = next((i for i, c in enumerate(prompt.text) if rendered.text[i : i + 1] != c), len(prompt.text))
        turn = rendered.text[same:].replace("</eos>", "")
        for chunks in ([turn], list(turn)):
            found = read(dialect, prompt.text[:same], chunks)
            assert (found.reasoning, found.content) == (thought, content), turn
            assert [(c.name, c.status, json.loads(c.arguments)) for c in found.tool_calls] == [
                (name, "ok", arguments) for name, arguments in calls
            ], turn
        read_back += 1
    assert read_back >= 4


FALSIFIED = {
    "escaped values": ("nested-markup", "{{ v }}", "{{ v | e }}", False),
    "upper case": ("numbered-calls", "c.function.name ~", "(c.function.name | upper) ~", False),
    "no text": ("fences", "(m.content or '')", "''", False),
    "calls from the last to the first": (
        "attributes-with-ids",
        "m.tool_calls or []",
        "(m.tool_calls or []) | reverse",
        False,
    ),
    "cut values": ("nested-markup", "{{ v }}", "{{ v[:60] }}", False),
    "trimmed values": ("nested-markup", "{{ v }}", "{{ v | trim }}", False),
    "names cut at a dot": ("numbered-calls", "c.function.name ~", "c.function.name.split('.')[0] ~", False),
    "names of one word": ("numbered-calls", "c.function.name ~", "c.function.name | replace('_', '') ~", False),
    "text in one line": ("fences", "(m.content or '')", "(m.content or '') | replace('\n', ' ')", False),
    "keys with other signs": ("lenticular-brackets", "⟪' ~ k ~", "⟪' ~ (k | replace('-', '_')) ~", False),
    "five arguments": (
        "lenticular-brackets",
        "in c.function.arguments.items()",
        "in (c.function.arguments.items() | list)[:5]",
        False,
    ),
    "long texts cut": ("lenticular-brackets", "(v if", "(v[:9000] if", False),
    "numbers of six digits": ("lenticular-brackets", "else v |", "else v | round(6) if v is float else v |", False),
    "four calls": ("lenticular-brackets", "m.tool_calls or []", "(m.tool_calls or [])[:4]", False),
    "one call only": ("numbered-calls", "m.tool_calls or []", "(m.tool_calls or [])[:1]", True),
}
"""Templates that change what they are given, and whether the rest is still a proof."""


@pytest.mark.parametrize("kind", FALSIFIED)
def test_a_part_that_a_template_falsifies_is_not_proven(kind: str) -> None:
    family, old, new, holds = FALSIFIED[kind]
    template = invented.TEMPLATES[family]
    assert old in template
    found = unspool.infer_dialect(template.replace(old, new))
    assert (found.dialect is not None) is holds
