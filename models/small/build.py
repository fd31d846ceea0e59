"""Makes the rows for training: ``python -m models.small.build MODEL.gguf ROWS.json``.

Every conversation is rendered by the chat template that the server uses. It becomes a row as it was written, another
one among tools of other conversations, and one with its thought if it has one. Some requests are repeated without the
tools that they need, and some pairs of requests are joined into one.

A row is ``[ids, learnt]``: token ids, and the spans on which the loss is computed. Tokens come from llama.cpp, as they
do in the server. One conversation of 25 is held out.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from unspool.rl.templates import ChatTemplate

from .tokens import Tokens

FOLDER: Final = Path(__file__).parent
TEMPLATE: Final = FOLDER.parents[1] / "src/unspool/models/small/chat_template.jinja"
LONGEST: Final = 1536
"""The most tokens of a row; longer ones are left out."""
WITHOUT_TOOLS: Final = 0.12
"""The share of requests that are repeated without the tools that they need."""
JOINED: Final = 500
"""How many rows consist of two joined requests."""
_JOINTS: Final = (
    " Also, {}",
    " And {}",
    "\n{}",
    " Then {}",
    " {}",
    "; {}",
    " Next: {}",
    " After that, {}",
    " One more thing: {}",
)

Message = dict[str, Any]


class Conversation(msgspec.Struct):
    """Messages that end with the assistant's answer, which is learnt.

    Attributes:
        tools: the declared functions: name, description, parameters.
        messages: role and content; of the assistant also ``tool_calls`` (name and arguments each), and in the last
            message ``reasoning``, a thought that precedes the answer if thinking is on.
    """

    tools: list[dict[str, Any]]
    messages: list[Message]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of the answer."""
        calls: list[dict[str, Any]] = self.messages[-1].get("tool_calls", [])
        return calls

    @property
    def single(self) -> bool:
        """Whether it is one request and its answer."""
        return [m["role"] for m in self.messages] == ["user", "assistant"]


class Row(msgspec.Struct, array_like=True):
    """Token ids, and the half-open spans of those that are learnt."""

    ids: list[int]
    learnt: list[tuple[int, int]]


def conversations() -> Iterator[Conversation]:
    """The conversations, in the order of the files' names."""
    for path in sorted((FOLDER / "conversations").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            group = json.loads(line)
            for messages in group["conversations"]:
                yield Conversation(group["tools"], messages)


def beside(every: Sequence[Conversation]) -> dict[str, list[Conversation]]:
    """Conversations by their tools."""
    by_tools: dict[str, list[Conversation]] = {}
    for c in every:
        by_tools.setdefault(json.dumps(c.tools), []).append(c)
    return by_tools


class Renderer:
    """Renders conversations as the server does.

    Args:
        template: the text of the chat template.
    """

    def __init__(self, template: str) -> None:
        self._templates = [ChatTemplate(template, {"enable_thinking": thinking}) for thinking in (False, True)]

    def prompt(self, tools: Sequence[Any], messages: Sequence[Message], *, thinking: bool = False) -> str:
        """The prompt that asks for the next answer."""
        return self._render(tools, messages, thinking, generate=True)

    def pieces(self, c: Conversation, *, thinking: bool = False) -> list[tuple[str, bool]]:
        """The text in pieces, each with whether it is learnt. With thinking, only the last answer is."""
        messages = c.messages if thinking else [*c.messages[:-1], {**c.messages[-1], "reasoning": None}]
        places = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
        whole = self._render(c.tools, messages, thinking)
        pieces, done = [], 0
        for i in places[-1:] if thinking else places:
            before = self._render(c.tools, messages[:i], thinking, generate=True)
            after = self._render(c.tools, messages[: i + 1], thinking).removesuffix("\n")
            if not whole.startswith(before) or not whole.startswith(after):
                raise ValueError(f"the template rewrites what is before {messages[i]}")
            pieces += [(before[done:], False), (after[len(before) :], True)]
            done = len(after)
        return pieces

    def _render(
        self, tools: Sequence[Any], messages: Sequence[Message], thinking: bool, *, generate: bool = False
    ) -> str:
        declared = [{"type": "function", "function": t} for t in tools]
        return self._templates[thinking].render([_openai(m) for m in messages], declared or None, generate=generate)


def _openai(m: Message) -> Message:
    out = {"role": m["role"], "content": m.get("content") or ""}
    if m.get("tool_calls"):
        out["tool_calls"] = [{"type": "function", "function": c} for c in m["tool_calls"]]
    if m.get("reasoning"):
        out["reasoning_content"] = m["reasoning"]
    return out


class Variants:
    """Draws the variants of conversations.

    Args:
        rng: the source of chance.
        among: the conversations, whose tools are mixed.
    """

    def __init__(self, rng: random.Random, among: Sequence[Conversation]) -> None:
        self._rng = rng
        self._tools = [t for c in among for t in c.tools]
        self._refusals = (FOLDER / "refusals.txt").read_text(encoding="utf-8").splitlines()

    def mixed(self, *together: Conversation, among: Sequence[int] = (1, 2, 3, 5)) -> list[Conversation]:
        """Conversations beside the same tools, now among so many tools of other ones."""
        names = {t["name"] for t in together[0].tools}
        tools = together[0].tools + self._others(self._rng.choice(among), names)
        self._rng.shuffle(tools)
        return [Conversation(tools, c.messages) for c in together]

    def refused(self, c: Conversation) -> Conversation | None:
        """Without the tools that the answer calls."""
        tools = self._others(self._rng.choice([1, 1, 2, 3]), {t["name"] for t in c.tools})
        answer = {"role": "assistant", "content": self._rng.choice(self._refusals)}
        return Conversation(tools, [*c.messages[:-1], answer]) if tools else None

    def joined(self, first: Conversation, second: Conversation) -> Conversation:
        """Two requests in one message."""
        a, b = first.messages[0]["content"], second.messages[0]["content"]
        a = a if a[-1] in ".?!" else a + self._rng.choice([".", "", ","])
        joint = self._rng.choice(_JOINTS)
        b = b if (joint[-3] == " " and joint.strip() == "{}") or self._rng.random() < 0.3 else b[0].lower() + b[1:]
        names = {t["name"] for t in first.tools}
        answer = {"role": "assistant", "tool_calls": first.calls + second.calls}
        tools = first.tools + [t for t in second.tools if t["name"] not in names]
        return Conversation(tools, [{"role": "user", "content": a + joint.format(b)}, answer])

    def _others(self, count: int, names: set[str]) -> list[Any]:
        found: dict[str, Any] = {}
        for t in self._rng.sample(self._tools, count):
            if t["name"] not in names:
                found.setdefault(t["name"], t)
        return list(found.values())


def joinable(rng: random.Random, every: Sequence[Conversation]) -> Iterator[tuple[Conversation, Conversation]]:
    """Pairs of single requests, mostly beside the same tools, whose answers are calls."""
    single = [c for c in every if c.single and 0 < len(c.calls) < 3 and len(c.messages[0]["content"]) < 120]
    by_tools = beside(single)
    while True:
        first = rng.choice(single)
        near = by_tools[json.dumps(first.tools)]
        second = rng.choice(near if rng.random() < 0.8 else single)
        same_names = {t["name"] for t in first.tools} & {t["name"] for t in second.tools}
        apart = second is not first and not any(c in first.calls for c in second.calls)
        if apart and (second.tools == first.tools or not same_names):
            yield first, second


def variants(
    rng: random.Random, every: Sequence[Conversation], without_tools: float
) -> Iterator[tuple[Conversation, bool]]:
    """What is learnt: conversations, each with whether thinking is on."""
    draw = Variants(rng, every)
    for c in every:
        yield c, False
        yield from ((m, False) for m in draw.mixed(c))
        if c.messages[-1].get("reasoning"):
            yield (c if rng.random() < 0.5 else draw.mixed(c)[0]), True
        if c.single and c.calls and rng.random() < without_tools and (refused := draw.refused(c)):
            yield refused, False
        if c.single and not c.calls and rng.random() < 0.2 and not c.messages[-1].get("reasoning"):
            yield Conversation([], c.messages), False
    pairs = joinable(rng, every)
    for _ in range(JOINED):
        yield draw.joined(*next(pairs)), False


def split() -> tuple[list[Conversation], list[Conversation]]:
    """Conversations for training, and those that are held out."""
    every = list(conversations())
    return [c for i, c in enumerate(every) if i % 25], every[::25]


def main() -> None:
    """Write the rows."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", type=Path)
    options.add_argument("rows", type=Path)
    options.add_argument("--without-tools", type=float, default=WITHOUT_TOOLS)
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    rng = random.Random(given.seed)
    renderer = Renderer(TEMPLATE.read_text(encoding="utf-8"))
    tokens = Tokens(given.model)
    rows = []
    for c, thinking in variants(rng, split()[0], given.without_tools):
        row = Row([], [])
        for text, learnt in renderer.pieces(c, thinking=thinking):
            start = len(row.ids)
            row.ids += tokens.encode(text)
            if learnt:
                row.learnt.append((start, len(row.ids)))
        if len(row.ids) <= LONGEST:
            rows.append(row)
    rng.shuffle(rows)
    given.rows.write_bytes(msgspec.json.encode(rows))
    count = sum(end - start for r in rows for start, end in r.learnt)
    print(f"{len(rows)} rows, {sum(len(r.ids) for r in rows)} tokens, {count} learnt", file=sys.stderr)


if __name__ == "__main__":
    main()
