"""Proves a dialect: reads back what a template writes, case by case, in chunks of any size."""

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ..check import example_message, promises, trials
from ..dialect.examples import example_tools
from ..dialect.file import Dialect
from ..dialect.template import unstarted
from ..errors import ConstraintError, DialectError
from ..events import Stage
from ..message import Message
from ..parser import Parser, detect_stage
from ..policy import Policy
from ..renderer import render
from ..tokens import encoded
from . import histories as h
from .cutting import Cut, Views, behind_user, first_tag
from .marks import marks, prefix
from .rendering import Renderer

STAGE: Final = "the prompt's stage"  # the case of a prompt without settings; those with settings begin with it
NEEDED: Final = ("content", "one call", "two arguments", "no arguments", "text and call")  # the cases that must pass
_TYPES: Final = (
    "integer", "boolean", "false", "zero", "number", "null", "list", "texts in a list", "nested object",
    "a big integer", "a tiny number", "a number of many digits", "empty list", "deep nesting",
)  # fmt: skip
_SEVERAL: Final = ("a tool called twice", "many calls", "texts like other values")
_KEEP: Final = Policy(text_before_tools="keep", text_between_tools="keep")
"""A dialect's form is proven, not what its policies make of text before calls."""
_ROUNDS: Final = 3
_LONG: Final = 5000  # the length from which a text is no longer read character by character


class Case(msgspec.Struct, frozen=True):
    """One line of a proof."""

    case: str  # the name of what was rendered and read back
    # ``pass``, ``fail``, ``not written`` (by the template), or ``limit`` (a raw value with its own closing).
    result: str
    reason: str = ""  # the reason for the result, or an empty string


class Prover:
    """Proves dialects against one style of a template, whose renderer also renders further conversations. With a
    tokenizer, texts are also read by token ids.

    White space around reasoning and content must be read exactly (``exact``) with a dialect made from the template; one
    that serves several templates may leave it with the text.
    """

    def __init__(self, views: Views, cut: Cut, renderer: Renderer, tokenizer: Any, *, exact: bool = True) -> None:
        self.views = views
        self.cut = cut
        self.renderer = renderer
        self.tokenizer = tokenizer
        self.exact = exact

    def turns(self, dialect: Dialect) -> list[Case]:
        """The cases of the turns only, each read whole: a quick way to choose among candidates."""
        return [self._turn(dialect, name, quick=True) for name in h.TURNS]

    def all(self, dialect: Dialect) -> list[Case]:
        cases = [
            *(self._turn(dialect, name) for name in h.TURNS),
            *self._prompts(dialect),
            *self._next_turn(dialect),
        ]
        if self.views.style.followed:
            why = "the template writes it as an answer to be continued; only earlier turns are read"
            cases.append(Case("the last turn", "not written", why))
        if dialect.call and "one call" not in self.views.errors:
            cases += [*self._odd_keys(dialect), *self._marked_values(dialect)]
        cases += _kept(dialect)
        return [*cases, *_examples(dialect)] if self.exact else cases

    # -- turns -----------------------------------------------------------------------------------------------------

    def _turn(self, dialect: Dialect, name: str, *, quick: bool = False) -> Case:
        turn = h.TURNS[name]
        prompt, raw, missing = "", "", ""
        if name in self.views.errors:
            missing = f"the template refuses: {self.views.errors[name]}"
        else:
            prompt, raw = self.cut.split(self.views.whole[name])
            missing = _missing(turn, raw) or self._as_reasoning(turn)
            missing = missing and f"the template leaves out: {missing}"
        changed = (self._fewer(name) if name in _SEVERAL else _changed(turn, raw)) if missing else ""
        if changed:
            return Case(name, "fail", f"the template {changed}: {raw[:200]!r}")
        if missing:
            return self._apart(dialect, name, missing, quick=quick)
        if turn.reasoning and raw.lstrip().startswith(turn.reasoning) and dialect.stage is Stage.REASONING:
            prompt += self.cut.given  # only prompts write the opening
        why = self._read(dialect, turn, prompt, raw, quick=quick)
        if not why:
            same = self._same(dialect, turn, raw)
            return Case(name, "pass", "" if same else "written with other white space or markers")
        if name in _TYPES and self._as_text(dialect, turn, prompt, raw):
            return Case(name, "not written", "the template writes the value as text that is not JSON")
        before_last = raw[: raw.rfind(turn.calls[-1][0])] if len(turn.calls) > 1 else ""
        if any(end in before_last for end in dialect.end):
            return Case(name, "not written", "the template ends the turn between its calls")
        if self._unescaped(dialect, turn, raw):
            return Case(name, "limit", "the template writes quotes of a string as they are")
        return Case(name, "fail", f"{why}; the template writes {raw[:200]!r}")

    def _apart(self, dialect: Dialect, name: str, missing: str, *, quick: bool) -> Case:
        """The case of a turn that the template does not write whole: its content and its calls, one after the other."""
        turn = h.TURNS[name]
        joined = self._joined(dialect, turn) if turn.content and turn.calls else None
        if joined is None:
            return Case(name, "not written", missing)
        why = self._read(dialect, turn, *joined, quick=quick)
        return Case(name, "fail" if why else "pass", why or "read as text and a call, one after the other")

    def _fewer(self, name: str) -> str:
        """The fault if the template writes three different calls, but not all of this turn's calls."""
        if {"three calls", name} & set(self.views.errors):
            return ""
        _, raw = self.cut.split(self.views.whole["three calls"])
        return "" if _missing(h.TURNS["three calls"], raw) else "leaves out or merges some of the calls"

    def _as_reasoning(self, turn: h.HistoryTurn) -> str:
        """The fault if the template writes content as it writes reasoning."""
        if turn.reasoning or not (turn.content and turn.calls):
            return ""
        thought, text = (self.views.whole.get(n, "") for n in ("reasoning and call", "text and call"))
        same = h.CONTENT in text and text.replace(h.CONTENT, h.THOUGHT) == thought
        return "content, which it writes as reasoning" if same else ""

    def _unescaped(self, dialect: Dialect, turn: h.HistoryTurn, raw: str) -> bool:
        """Whether quoted strings contain unescaped quotes."""
        quotes = "'\"" if dialect.codec.name == "python" else dialect.codec.quote if dialect.codec.quote != '"' else ""
        values = [v for _, arguments in turn.calls for v in arguments.values() if isinstance(v, str)]
        return any(q in v and f"{q}{v}{q}" in raw for v in values for q in quotes)

    def _joined(self, dialect: Dialect, turn: h.HistoryTurn) -> tuple[str, str] | None:
        """Content and calls, each as written in its own turn, if the template drops one next to the other."""
        calls = "one call" if len(turn.calls) == 1 else "two calls"
        if turn.reasoning or turn.calls != h.TURNS[calls].calls or {"content", calls} & set(self.views.errors):
            return None
        prompt, text = self.cut.split(self.views.whole["content"])
        _, raw = self.cut.split(self.views.whole[calls])
        if _missing(h.TURNS["content"], text) or _missing(h.TURNS[calls], raw):
            return None
        if not dialect.content[0].before:
            text = text[: text.index(turn.content) + len(turn.content)]
            return prompt, text + (dialect.calls[0].lead or dialect.call[0].lead) + raw.lstrip()
        frame = (dialect.preamble or dialect.content)[0]
        text = text[: text.index(turn.content) + len(turn.content)] + frame.closing + frame.trail
        again = self.cut.start if self.cut.start.strip() and dialect.call[0].text.startswith(self.cut.start) else ""
        return prompt, text + again + raw

    def _read(
        self,
        dialect: Dialect,
        turn: h.HistoryTurn,
        prompt: str,
        raw: str,
        *,
        ids: bool = True,
        quick: bool = False,
        tools: list[dict[str, Any]] = h.TOOLS,
    ) -> str:
        """Why a turn is read wrongly; empty if it is read well.

        The turn is read whole, character by character unless it is long, in random chunks, and with ``ids`` by token
        ids if there is a tokenizer; with ``quick`` only whole.
        """
        for chunks, cut in [([raw], "whole")] if quick else _chunkings(raw):
            message = _parse(dialect, chunks, prompt, tools)
            why = _differs(message, turn, self._id(dialect, raw), exact=self.exact)
            if why:
                return f"{cut}: {why}"
        if ids and not quick and self.tokenizer is not None:
            return self._by_ids(dialect, turn, prompt, raw)
        return ""

    def _by_ids(self, dialect: Dialect, turn: h.HistoryTurn, prompt: str, raw: str) -> str:
        parser = Parser(dialect, tools=h.TOOLS, prompt=prompt, tokenizer=self.tokenizer, policy=_KEEP)
        for token in encoded(self.tokenizer, raw):
            parser.feed_tokens([token])
        parser.close()
        why = _differs(parser.message, turn, self._id(dialect, raw), exact=self.exact)
        return f"by token ids: {why}" if why else ""

    def _id(self, dialect: Dialect, raw: str) -> h.HistoryStyle | None:
        """The style of the ids that the call's text must spell."""
        return self.views.style if any("{id}" in t.opening for t in dialect.call) and h.IDS[0] in raw else None

    def _as_text(self, dialect: Dialect, turn: h.HistoryTurn, prompt: str, raw: str) -> bool:
        """Whether a value that is not a string is written as text, or as Python prints it."""
        ((key, value),) = turn.calls[0][1].items()
        printed, proper = str(value), json.dumps(value)
        if printed != proper and printed in raw and proper not in raw:
            return True
        message = _parse(dialect, [raw], prompt)
        if len(message.tool_calls) != 1 or message.tool_calls[0].status != "ok":
            return False
        found = json.loads(message.tool_calls[0].arguments).get(key)
        return isinstance(found, str) and found in (printed, proper, "" if value is None else proper)

    def _same(self, dialect: Dialect, turn: h.HistoryTurn, raw: str) -> bool:
        message = turn.message(h.HistoryStyle(ids=self.views.style.ids))
        try:
            written = render(message, dialect, tools=h.TOOLS, stage=Stage.CONTENT)
        except DialectError:
            return False
        head, found, rest = raw.partition(written)
        if not turn.reasoning:  # an empty one may be written
            for marker in map(str.strip, _reasoning(dialect)):
                head = head.replace(marker, "", 1)
        return bool(found) and not head.strip() and (not rest.strip() or rest.lstrip().startswith(dialect.end))

    # -- prompts ---------------------------------------------------------------------------------------------------

    def _prompts(self, dialect: Dialect) -> Iterator[Case]:
        prompts = {STAGE: self.views.prompted}
        prompts |= {f"{STAGE}, {name}": text for name, text in self.views.switched.items()}
        for name, prompt in prompts.items():
            yield self._prompt(dialect, name, prompt)

    def _prompt(self, dialect: Dialect, name: str, prompt: str) -> Case:
        """After a prompt that ends with an opening comes reasoning, after any other one content."""
        starts = [s for s in (*dialect.start, self.cut.start) if s.strip() and s in prompt]
        given = prompt.rpartition(starts[0])[2] if starts else ""
        opening, closing = _reasoning(dialect)
        tag = first_tag(closing)
        closed = bool(tag) and tag in given
        thinks = bool(opening) and given.rstrip().endswith(opening.strip()) and not closed
        wanted = Stage.REASONING if thinks else Stage.CONTENT
        known = closed or given.strip() in ("", opening.strip(), opening.strip() + closing.strip(), tag)
        framed = bool(dialect.content[0].before)
        if not known and not framed:
            return Case(name, "fail", f"the prompt writes {given!r} after the turn's opening")
        stage = detect_stage(dialect, prompt)
        if stage is not wanted and not (framed and stage is Stage.CONTENT):
            return Case(name, "fail", f"{stage.value} instead of {wanted.value} after {prompt[-60:]!r}")
        turn = h.HistoryTurn(h.THOUGHT if thinks else "", h.CONTENT)
        raw = f"{h.THOUGHT}{closing}{h.CONTENT}" if thinks else h.CONTENT
        why = "" if framed else self._read(dialect, turn, prompt, raw)
        return Case(name, "fail" if why else "pass", why or wanted.value)

    def _next_turn(self, dialect: Dialect) -> Iterator[Case]:
        name = "the turn after a tool's result"
        style = self.views.style
        messages = h.with_result(style)
        answer = h.HistoryTurn(content=h.CONTENT)
        requests = [
            h.request(messages, generate=True),
            h.request([*messages, answer.message(style), *h.again(style)], generate=False),
        ]
        prompt, whole = self.renderer.render(requests)
        if prompt.error or whole.error or h.RESULT not in whole.text or h.CONTENT not in whole.text:
            yield Case(name, "not written", prompt.error or whole.error or "the template leaves out the result")
            return
        shown = self.views.alone(whole.text)
        at = shown.rindex(h.RESULT)
        start = self.cut.start
        begin = shown.find(start, at) + len(start) if start.strip() and start in shown[at:] else -1
        if begin < 0:
            begin = len("".join(marks(shown)[: prefix(marks(prompt.text), marks(shown))]))
        begin = min(begin, shown.rindex(h.CONTENT))
        text = shown[begin:].replace(h.EOS, "")
        why = self._read(dialect, answer, shown[:begin], text)
        if why and text[:1].isspace() and not self._read(dialect, answer, shown[:begin], text.lstrip()):
            yield Case(name, "not written", "only here, the template puts white space before the text")
            return
        yield Case(name, "fail" if why else "pass", why)

    # -- keys and values -------------------------------------------------------------------------------------------

    def _odd_keys(self, dialect: Dialect) -> Iterator[Case]:
        """Keys that are not plain words. A format may be unable to write those that contain its own syntax."""
        turns = {k: h.HistoryTurn(calls=((h.ODD_TOOL, {h.KEYS[0]: "zq value", k: "zq more"}),)) for k in h.ODD_KEYS}
        wrong: list[str] = []
        limits: list[str] = []
        for key, why, _ in self._misread(dialect, turns, h.ODD_TOOLS):
            (limits if key in h.ODD_KEYS[h.SIGNS :] else wrong).append(f"{key[:40]!r}: {why}")
        return _judged("odd keys", wrong, "keys that a format may not hold", limits)

    def _marked_values(self, dialect: Dialect) -> Iterator[Case]:
        """Values that contain the markers of the dialect."""
        texts = [f"x {marker} y" for marker in promises.literals(dialect)]
        turns = {text: h.HistoryTurn(calls=((h.NAMES[0], {h.KEYS[0]: text, h.KEYS[1]: "z"}),)) for text in texts}
        own = promises.own_closings(dialect)
        wrong: list[str] = []
        limits: list[str] = []
        for text, why, raw in self._misread(dialect, turns, h.TOOLS):
            if not _missing(turns[text], raw):
                closed = any(c in text or text[2:-2] in c for c in own) or self._unescaped(dialect, turns[text], raw)
                (limits if closed else wrong).append(f"{text!r}: {why}")
        return _judged("values that hold markers", wrong, "values that hold their own closing", limits)

    def _misread(
        self, dialect: Dialect, turns: Mapping[str, h.HistoryTurn], tools: list[dict[str, Any]]
    ) -> Iterator[tuple[str, str, str]]:
        """The turns that are read wrongly, each with the reason and what the template writes."""
        requests = [h.request(h.answered(t, self.views.style), generate=False, tools=tools) for t in turns.values()]
        for (what, turn), rendered in zip(turns.items(), self.renderer.render(requests), strict=True):
            text = self.views.alone(rendered.text)
            if rendered.error or self.cut.start not in behind_user(text) or turn.calls[0][0] not in behind_user(text):
                continue
            prompt, raw = self.cut.split(text)
            # A tokenizer turns a marker in a value into a special token; a model that quotes the marker does not.
            why = self._read(dialect, turn, prompt, raw, ids=False, tools=tools)
            if why:
                yield what, why, raw


def _judged(name: str, wrong: Sequence[str], limit: str, limits: Sequence[str]) -> Iterator[Case]:
    yield Case(name, "fail" if wrong else "pass", "; ".join(wrong[:3]))
    if limits:
        yield Case(limit, "limit", "; ".join(limits[:3]))


def _kept(dialect: Dialect) -> Iterator[Case]:
    """The promises of every dialect: what it writes is read back, and its grammar accepts it."""
    promised = {
        "the grammar's closed loop": promises.calls_of_any_values_are_written_and_read,
        "strings that hold markers": promises.markers_inside_strings_are_data,
    }
    for name, promise in promised.items():
        if dialect.call:
            try:
                promise(dialect)
            except (AssertionError, DialectError, ConstraintError) as error:
                yield Case(name, "fail", str(error)[:500])
            else:
                yield Case(name, "pass")


def _examples(dialect: Dialect) -> Iterator[Case]:
    """The examples of an inferred file: each is exactly what the dialect writes."""
    why = ""
    try:
        for case in trials.cases([dialect]):
            promises.what_is_read_is_written_again(case)
            promises.finish_reason_is_kept(case)
        tools = example_tools(dialect)
        for example in dialect.examples:
            written = render(example_message(example), dialect, tools=tools, stage=example.stage)
            trials.demand(written == example.raw[0], f"{example.raw[0]!r} is written as {written!r}")
    except (AssertionError, DialectError) as error:
        why = str(error)[:500]
    yield Case("the file's examples", "fail" if why else "pass", why)


def _reasoning(dialect: Dialect) -> tuple[str, str]:
    if not dialect.reasoning:
        return "", ""
    first = dialect.reasoning[0]
    return unstarted(first.lead + first.opening, dialect.start), first.closing + first.trail


def _chunkings(raw: str) -> Iterator[tuple[Sequence[str], str]]:
    yield [raw], "whole"
    rng = random.Random(len(raw))
    if len(raw) > _LONG:
        yield trials.random_split(raw, rng, 200), "cut at random"
        return
    yield list(raw), "by character"
    for _ in range(_ROUNDS):
        yield trials.random_split(raw, rng), "cut at random"


def _parse(dialect: Dialect, chunks: Sequence[str], prompt: str, tools: list[dict[str, Any]] = h.TOOLS) -> Message:
    parser = Parser(dialect, tools=tools, prompt=prompt, policy=_KEEP)
    for chunk in chunks:
        parser.feed(chunk)
    parser.close()
    return parser.message


def _missing(turn: h.HistoryTurn, raw: str) -> str:
    """The part of a turn that the template does not write."""
    if turn.reasoning and h.THOUGHT not in raw:
        return "reasoning"
    if turn.content and h.CONTENT not in raw:
        return "content"
    at = 0
    for name, arguments in turn.calls:
        at = raw.find(name, at) + 1
        if not at or any(key not in raw for key in arguments):
            return "a call"
        if h.SEPARATOR in "".join(map(str, arguments.values())) and not re.search(r"\u2028|\\u2028", raw):
            return "a line separator, which it takes for the end of a line"
    return ""


def _changed(turn: h.HistoryTurn, raw: str) -> str:
    """How the template changes a call that it writes only in part. A call that it omits altogether is not changed.

    Omitting an argument that is null is no change either.
    """
    places = [raw.find(name) for name in dict.fromkeys(name for name, _ in turn.calls)]
    if -1 not in places and places != sorted(places):
        return "writes the calls in another order"
    for name, arguments in turn.calls:
        parts = [name, *(key for key, value in arguments.items() if value is not None)]
        lost = [part for part in parts if part not in raw]
        if lost and len(lost) < len(parts):
            return f"leaves out or changes {lost[0]!r}"
    return ""


def _differs(message: Message, turn: h.HistoryTurn, ids: h.HistoryStyle | None, *, exact: bool) -> str:
    """The difference between a message that was read and a turn."""
    for part in ("reasoning", "content"):
        got, wanted = getattr(message, part), getattr(turn, part)
        if got != wanted and (exact or got.strip() != wanted):
            same = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), len(got))
            at = max(same - 20, 0)
            return f"{part} is {got[at : at + 80]!r} instead of {wanted[at : at + 80]!r}"
    names = [c.name for c in message.tool_calls]
    if names != [name for name, _ in turn.calls]:
        return f"calls are {names}"
    for i, (call, (name, arguments)) in enumerate(zip(message.tool_calls, turn.calls, strict=True)):
        if call.status != "ok":
            return f"a call is {call.status}"
        if json.dumps(json.loads(call.arguments), sort_keys=True) != json.dumps(arguments, sort_keys=True):
            return f"arguments are {call.arguments[:120]} instead of {json.dumps(arguments, ensure_ascii=False)[:120]}"
        if ids is not None and call.id != ids.id(i, name):
            return f"an id is {call.id!r} instead of {ids.id(i, name)!r}"
    if any(n.kind == "other_syntax" for n in message.notices):
        return "the calls are in a format that the dialect reads, but does not write"
    return ""
