"""The promises that every dialect must keep, as checks that `unspool check` and the test suite run.

Each promise is a function that raises `Broken` if it is not kept.
"""

import itertools
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from ..dialect.compiling import marked
from ..dialect.file import Dialect
from ..dialect.lint import CHECKING, LOADING
from ..dialect.patterns import worded
from ..dialect.template import Template, literal, writable
from ..errors import DialectError
from ..events import Stage
from ..grammar import ToolStrictLevel, constrain
from ..grammar.matchers import from_lark
from ..message import Message
from ..policy import Policy
from ..renderer import render
from .trials import Broken, Trial, altered, chunkings, demand, empty, notices, places, random_split, read, run, same

_SHOWN: Final = 60  # how many characters of a text a message shows on either side of a place
_BY_CHARACTER: Final = 23  # at every such number of characters, a truncated text is also read character by character

# -- promises of every raw text ----------------------------------------------------------------------------------------


def chunking_is_invisible(case: Trial) -> None:
    """A text means the same however it is cut."""
    _is_invisible(case, chunkings(case.raw), "")


def chunking_is_invisible_where_tools_are_unknown(case: Trial) -> None:
    """The same without declared tools, at fewer cuts."""
    rng = random.Random(str(case))
    ways = (list(case.raw), random_split(case.raw, rng, 4), random_split(case.raw, rng, 25))
    _is_invisible(case, ways, ", its tools unknown,", tools=None)


def _is_invisible(case: Trial, ways: Iterable[Sequence[str]], known: str, **options: Any) -> None:
    whole = same(read(case, **options)[0])
    for chunks in ways:
        got = same(read(case, chunks, **options)[0])
        demand(got == whole, f"{_cut(chunks)}{known} it means something else: got {got!r}, expected {whole!r}")


def _cut(chunks: Sequence[str]) -> str:
    if len(chunks) == 2:
        return f"cut at {len(chunks[0])}"
    return "read character by character" if all(len(c) == 1 for c in chunks) else "cut at random"


def truncation_invents_nothing(case: Trial) -> None:
    """A truncated text keeps its earlier calls, and of the last one what was written."""
    whole, _ = read(case)
    ends = tuple(closings(case.dialect)) if case.dialect.argument else ()
    for at in places(case.raw):
        text = case.raw[:at]
        cut, _ = read(case, [text], finish_reason="length")
        demand(cut.finish_reason == "length", f"cut off at {at} the finish reason is {cut.finish_reason!r}")
        check_truncated(whole, cut, text, ends)
        silent = bool(text.strip()) and empty(cut) != ("empty" in notices(cut))
        demand(not silent, f"cut off at {at} the notice `empty` is not where it belongs")
        if at % _BY_CHARACTER == case.number % _BY_CHARACTER:
            by_character, _ = read(case, list(text), finish_reason="length")
            demand(same(by_character) == same(cut), f"cut off at {at} it depends on chunks what it means")


def closings(dialect: Dialect) -> list[str]:
    """The literals that may end a text value."""
    parts = [t.after for t in (*dialect.argument, *dialect.item, *dialect.call, *dialect.calls)]
    return sorted({p.strip() for after in parts for p in after if isinstance(p, str) and p.strip()})


def own_closings(dialect: Dialect) -> list[str]:
    """What a string argument cannot contain: closings where arguments are markup, and a quote that nothing escapes."""
    if dialect.argument:
        return closings(dialect)
    return [dialect.codec.quote] if dialect.codec.quote != '"' else []


def check_truncated(whole: Message, cut: Message, text: str, ends: tuple[str, ...]) -> None:
    """Check that the message of a truncated output invents nothing; `Broken` if something was not written.

    ``cut`` is the message of ``text``, the beginning of the output. A closing of a text value at its end (``ends``)
    counts, whatever followed it in the whole output.
    """
    where = f"cut off at {len(text)}"
    demand(len(cut.tool_calls) <= len(whole.tool_calls), f"{where} it has more calls")
    for i, call in enumerate(cut.tool_calls):
        full = whole.tool_calls[i]
        demand(call.name == full.name, f"{where} a call is named {call.name!r} instead of {full.name!r}")
        if i < len(cut.tool_calls) - 1:
            intact = (call.arguments, call.status, call.id) == (full.arguments, full.status, full.id)
            demand(intact, f"{where} the earlier call {i} differs: {call}")
        elif call.status == "incomplete":
            unquoted = call.arguments.removesuffix('"') if text.endswith(ends) else call.arguments
            demand(
                full.arguments.startswith((call.arguments, unquoted)),
                f"{where} arguments are made up: {call.arguments}",
            )
        elif not text.endswith(ends):
            kept = (call.arguments, call.status) == (full.arguments, full.status)
            demand(kept, f"{where} the call is {call.status!r} with {call.arguments}")


def finish_reason_is_kept(case: Trial) -> None:
    """``stop`` becomes ``tool_calls`` if a call ended; no other reason changes."""
    for reason in ("stop", "length", "content_filter", "abort"):
        message, _ = read(case, finish_reason=reason)
        expected = "tool_calls" if case.example.tool_calls and reason == "stop" else reason
        demand(message.finish_reason == expected, f"closed with {reason!r} it finishes with {message.finish_reason!r}")


RAW_PROMISES: Final[tuple[Callable[[Trial], None], ...]] = (
    chunking_is_invisible,
    chunking_is_invisible_where_tools_are_unknown,
    truncation_invents_nothing,
    finish_reason_is_kept,
)
"""The promises for every raw text."""

# -- promises about writing ---------------------------------------------------------------------------------------


def what_is_read_is_written_again(case: Trial) -> None:
    """The message of the first raw text is written as that text."""
    written = render(read(case, ids=None)[0], case.dialect, tools=case.tools, stage=case.example.stage)
    demand(written == case.raw, f"what it means is written otherwise: got {written!r}, expected {case.raw!r}")


def the_grammar_lets_it_through(case: Trial) -> None:
    """The derived grammar admits the first raw text. Without the extra ``constrain``, this is not tested."""
    if not case.dialect.call:
        return
    calling = case.example.tool_calls and not case.example.content  # if calls are required, nothing comes before them
    for choice in ("auto", "required") if calling else ("auto",):
        if not case.tools:
            return
        constraint = constrain(
            case.dialect, case.tools, choice, stage=case.example.stage, strict_level=ToolStrictLevel.PARAMETER
        )
        why = "" if constraint is None else refusal(constraint.lark, case.raw)
        demand(not why, f"the grammar under tool_choice {choice!r} {why}; {UNGENERATED}")


WRITTEN_PROMISES: Final[tuple[Callable[[Trial], None], ...]] = (
    what_is_read_is_written_again,
    the_grammar_lets_it_through,
)
"""The promises for the first raw text of an example, which is the text that is written."""


@cache
def _byte_tokenizer() -> Any:
    """A tokenizer in which every byte is a token; ``None`` if llguidance is not installed."""
    try:
        import llguidance
    except ImportError:
        return None
    return llguidance.LLTokenizer("byte")


UNGENERATED: Final = (
    "constrained generation follows this grammar, which is made of the templates, and could never write the text: "
    "change the template that writes the text there (its white space, `separator` or `id`), "
    "or let parts that begin alike begin differently"
)
"""What it means that a grammar does not admit a text, and what to do."""


def refusal(lark: str, text: str) -> str:
    """Why a grammar does not admit a text; empty if it does, or if llguidance is not installed."""
    tokenizer = _byte_tokenizer()
    if tokenizer is None:
        return ""
    matcher = from_lark(tokenizer, lark)
    if matcher.is_error():
        return f"is refused by llguidance: {matcher.get_error()}"
    data = text.encode()
    taken = matcher.try_consume_tokens(list(data))
    if taken < len(data):
        before, rest = (part.decode(errors="replace") for part in (data[:taken], data[taken:]))
        where = f"after {before[-_SHOWN:]!r}" if before else "at the beginning"
        return f"does not allow {rest[:_SHOWN]!r} {where}"
    return "" if matcher.is_accepting() else "does not end with it"


# -- promises of a dialect ---------------------------------------------------------------------------------------------


def _tool(name: str, **types: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in types.items()}
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
    }


TOOLS: Final = [_tool("f", a="string", b="string", n="integer"), _tool("g", a="string"), _tool("now")]
DEEP: Final = _tool("h")
DEEP["function"]["parameters"]["properties"] = {
    "a": {"type": "array", "items": {"type": "string"}},
    "o": {"type": "object", "properties": {"k": {"type": "string"}, "m": {"type": "string"}}},
}
TURNS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (("f", {"a": "Paris", "b": "é 北京 🌧️", "n": -3}),),
    (("now", {}),),
    (("now", {}), ("f", {"a": "x"}), ("now", {})),
    (("f", {"a": "", "b": " edge ", "n": 12345678901234567890}),),
    (("f", {"a": "null", "b": "true"}), ("g", {"a": "123"}), ("g", {"a": '"quoted"'})),
    (("f", {"a": "{}", "b": "[1]"}), ("g", {"a": "line\nbreak\n\nand more"})),
    (("f", {"a": "\\", "b": '\\\\n \\u00e9 \\"'}),),
    (
        ("f", {"a": "<u>&amp;</u>", "b": "{[it's]};"}),
        ("h", {"a": ["<u>&lt;</u>", "it's;"], "o": {"k": "{[1]}", "m": "x"}}),
    ),
)
"""Calls that every dialect with calls writes and reads: texts like other values, edge cases, escapes."""


def calls_of_any_values_are_written_and_read(dialect: Dialect) -> None:
    """The templates write `TURNS`, which are read back however they are cut."""
    if not dialect.call:
        return
    tools = [*TOOLS, DEEP]
    constraint = constrain(dialect, tools, "required")
    lark = "" if constraint is None else constraint.lark
    rng = random.Random(dialect.name)
    for turn in TURNS:
        unclosed = dialect.argument and not dialect.call[0].after
        hint = "; let `call` close with a marker, by which a call without arguments ends" if unclosed else ""
        raw = _rendered(dialect, {"tool_calls": _made(turn)}, f"the calls {turn!r}", hint, tools=tools)
        for chunks in ([raw], list(raw), random_split(raw, rng, 5)):
            message, _ = run(dialect, chunks, tools=tools)
            got = _read(message)
            demand(got == [*turn], f"{raw!r} is read as {got!r}, expected {[*turn]!r}")
            demand(not (message.reasoning or message.content), f"{raw!r}: {message.content!r} is left as content")
        why = refusal(lark, raw)
        demand(not why, f"the grammar {why}, in {raw!r}; {UNGENERATED}")


def markers_inside_strings_are_data(dialect: Dialect) -> None:
    """A string argument may contain any literal of the dialect, except closings if arguments are in markup."""
    if not dialect.call:
        return
    own = own_closings(dialect)
    for text in literals(dialect):
        if any(text.startswith(c) or c.startswith(text) for c in own):
            continue
        values = {"a": f"x {text} y", "n": 3}
        raw = _rendered(dialect, {"tool_calls": _made([("f", values)])}, f"a string that contains {text!r}")
        message, _ = run(dialect, list(raw), tools=TOOLS)
        kept = [json.loads(c.arguments) for c in message.tool_calls if c.status == "ok"] == [values]
        demand(kept, f"a string that contains {text!r} is read as something else: {raw!r}")


WORDS: Final = ("An answer, as the fox: x<4 & [sic].", "über 北京 {it's}", "one\n\ntwo (2), three; ``four``")
"""Texts that every dialect can write as reasoning and as content."""


def texts_of_any_words_are_written_and_read(dialect: Dialect) -> None:
    """Reasoning, content and both are written and read back, with and without calls after them."""
    thoughts = ("", *WORDS) if dialect.reasoning else ("",)
    for thought, text in itertools.product(thoughts, ("", *WORDS)):
        _is_written_and_read(dialect, thought, text, ())
    if dialect.call:
        behind = dialect.policy.text_before_tools != "content" and stands_out(dialect)
        for thought, text in ((thoughts[-1], ""), *(((thoughts[-1], WORDS[0]), ("", WORDS[1])) if behind else ())):
            _is_written_and_read(dialect, thought, text, TURNS[0] + TURNS[1])


def stands_out(dialect: Dialect) -> bool:
    """Whether calls after content are distinct from it, by a marker with a letter or digit, or by their place.

    A call that begins with its name is not found after content, wherever it stands.
    """
    pairs = itertools.product(writable(dialect.calls), writable(dialect.call))
    return any(
        marked(b.before, dialect.anywhere) or marked(c.before, dialect.anywhere) or _lined(b, c) for b, c in pairs
    )


def _lined(block: Template, call: Template) -> bool:
    return bool(block.lead) and not block.opening and bool(literal(call.head).strip())


def _is_written_and_read(
    dialect: Dialect, thought: str, text: str, calls: Sequence[tuple[str, dict[str, Any]]]
) -> None:
    message = {"reasoning_content": thought, "content": text, "tool_calls": _made(calls)}
    parts = " and ".join(p for p, there in (("reasoning", thought), ("content", text), ("calls", calls)) if there)
    raw = _rendered(dialect, message, f"a message of {parts}")
    for chunks in ([raw], list(raw)):
        got, _ = run(dialect, chunks, tools=TOOLS)
        kept = (got.reasoning, got.content, len(got.tool_calls)) == (thought, text, len(calls))
        demand(kept, f"{raw!r} is read as {got!r}, expected {parts}")


def calls_are_text_where_none_are_read(dialect: Dialect) -> None:
    """Without tools, calls are content, as they are written."""
    if not dialect.call or dialect.framed:  # frames of calls are the dialect's own
        return
    for turn in (TURNS[0], TURNS[1]):
        raw = _written(dialect, turn).strip()
        message, _ = run(dialect, [raw], tools=[], stage=Stage.CONTENT)
        kept = (message.reasoning, message.content) == ("", raw)
        why = "without tools, calls are text: let no other part open or close with what a call contains"
        demand(kept, f"{raw!r} is read as {message.reasoning!r} and {message.content!r}; {why}")


def calls_are_read_after_the_opening_of_their_block(dialect: Dialect) -> None:
    """A prompt may end after the opening of a block."""
    if not dialect.call or not dialect.calls[0].opening or any(s.name for s in dialect.calls[0].head):
        return
    turn = TURNS[0] + TURNS[1]
    try:
        raw = render({"tool_calls": _made(turn)}, dialect, tools=TOOLS, stage=Stage.TOOL_CALL)
    except DialectError as error:
        raise Broken(f"calls cannot be written in a block that is open: {error}; {_UNLIKE_THEIR_BLOCK}") from None
    for chunks in ([raw], list(raw), [raw.lstrip()]):
        got, _ = run(dialect, chunks, tools=TOOLS, stage=Stage.TOOL_CALL)
        kept = len(got.tool_calls) == len(turn) and not got.content
        demand(kept, f"in a block that is open, {raw!r} is read as {got!r}; {_UNLIKE_THEIR_BLOCK}")


_UNLIKE_THEIR_BLOCK: Final = "let `call` begin neither as `calls` opens nor as it closes"


def calls_in_reasoning_are_read(dialect: Dialect) -> None:
    """If calls count in reasoning, it continues after them."""
    if not (dialect.call and dialect.reasoning):
        return
    if not marked(dialect.calls[0].before or dialect.call[0].before, dialect.anywhere):
        return
    if dialect.framed and dialect.start and dialect.reasoning[0].text.startswith(dialect.start):
        return  # calls are frames, too, and end it
    turn = TURNS[0] + TURNS[1]
    thought = {"role": "assistant", "reasoning_content": "plan"}
    # Calls alone would lack an opening with which `start` ends.
    both = render({**thought, "tool_calls": _made(turn)}, dialect, tools=TOOLS)
    calls = both.removeprefix(render(thought, dialect).rstrip()).strip()
    raw = render({**thought, "reasoning_content": "plan@@more"}, dialect).replace("@@", calls)
    message, _ = run(dialect, [raw], tools=TOOLS, policy=Policy(call_in_reasoning="resume"))
    kept = _read(message) == [*turn] and message.reasoning == "planmore" and not message.content
    why = "let reasoning neither open nor close with what a call contains"
    demand(kept, f"{raw!r} is read as {message!r}, expected calls in reasoning; {why}")


def _written(dialect: Dialect, turn: Sequence[tuple[str, dict[str, Any]]]) -> str:
    return render({"role": "assistant", "tool_calls": _made(turn)}, dialect, tools=TOOLS, stage=Stage.CONTENT)


def _rendered(
    dialect: Dialect, message: Mapping[str, Any], what: str, hint: str = "", tools: Sequence[Any] = TOOLS
) -> str:
    """A message as it is written. If it cannot be, `Broken` says ``what`` cannot, why, and a ``hint``."""
    try:
        return render(message, dialect, tools=tools)
    except DialectError as error:
        raise Broken(f"{what} cannot be written: {error}{hint}") from None


def _read(message: Message) -> list[tuple[str, Any]]:
    """The names and values of calls, or their status where they have none."""
    return [(c.name, json.loads(c.arguments) if c.status == "ok" else c.status) for c in message.tool_calls]


def _made(calls: Iterable[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False)}} for n, a in calls]


def a_broken_call_leaves_the_next_one_alone(dialect: Dialect) -> None:
    """If the arguments of a call are broken, or text is before them, the next call is still read."""
    if dialect.call and dialect.call[0].body and (what := _after_a_broken_call(dialect)):
        raise Broken(f"{what}; {_marked(dialect)}")


def _after_a_broken_call(dialect: Dialect) -> str:
    """What is read wrongly where the arguments of a call are broken; empty if nothing is."""
    calls = _made((("f", {"a": "@@"}), ("g", {"a": "x"})))
    raw = render({"role": "assistant", "tool_calls": calls}, dialect, tools=TOOLS)
    if dialect.argument:
        fields = {"key": "a", "value": "@@", "string": "true", "type": "string"}
        argument = dialect.argument[0].fill(fields).strip()
        raw = raw.replace(argument, f"?? stray {argument}", 1)
    for quote in (dialect.codec.quote, "'"):
        raw = raw.replace(f"{quote}@@{quote}", "@@" if quote in "\"'" else "=@@", 1)  # other quotes may be missing
    message, _ = run(dialect, [raw], tools=TOOLS, policy=Policy(bad_arguments="raw"))
    got = [(c.name, c.status) for c in message.tool_calls]
    # A header whose end is not marked is no header if text follows it.
    if got != [("f", "invalid"), ("g", "ok")] and not (dialect.argument and got == [("g", "ok")]):
        return f"the next call after a broken one is not read: {raw!r}"
    broken = message.tool_calls[0].arguments.rstrip()
    if dialect.argument_format == "json" and broken != '{"a": @@}':
        return f"the arguments of a broken call are read as {broken!r}: {raw!r}"
    return ""


def _marked(dialect: Dialect) -> str:
    """The change of a file by which the call after a broken one is read."""
    block, call = dialect.calls[0], dialect.call[0]
    openings = [o for o in (block.opening.strip(), literal(call.head).strip()) if o and not worded(o)]
    for listed in (*([o] for o in openings), openings):
        other = altered(dialect, dialect.examples, anywhere=tuple(listed))
        sound = not any(itertools.chain(LOADING.findings(other), CHECKING.findings(other)))
        if sound and not _after_a_broken_call(other):
            return f"write anywhere = {listed!r}, which then marks a call anywhere, if content does not contain it"
    if dialect.argument and call.head and not call.head[-1].text.strip():
        own = call.text.replace("{name}", "{name}:", 1)
        why = f"write a marker before `{{arguments}}`, as in {own!r}"
        if not marked(call.before, dialect.anywhere):
            why += ", or let `call` open with one that has a letter or digit"
        return why
    return "let `call` close with a marker that has a letter or digit, by which the call's end is found"


def no_marker_alone_is_silently_empty(dialect: Dialect) -> None:
    """An output that is one literal means something, or has the notice `empty`."""
    for text in literals(dialect):
        for stage in Stage:
            message, _ = run(dialect, [text], tools=TOOLS, stage=stage)
            demand(empty(message) == ("empty" in notices(message)), f"{text!r} alone is {message!r}, stage {stage}")


def literals(dialect: Dialect) -> list[str]:
    """Every literal of a dialect, stripped of white space."""
    found = [p.strip() for t in dialect.templates for p in (*t.before, *t.after) if isinstance(p, str)]
    return sorted({t for t in (*found, *dialect.start, *dialect.end, dialect.codec.quote) if t.strip()})


DIALECT_PROMISES: Final[tuple[Callable[[Dialect], None], ...]] = (
    calls_of_any_values_are_written_and_read,
    markers_inside_strings_are_data,
    texts_of_any_words_are_written_and_read,
    calls_are_text_where_none_are_read,
    calls_are_read_after_the_opening_of_their_block,
    calls_in_reasoning_are_read,
    a_broken_call_leaves_the_next_one_alone,
    no_marker_alone_is_silently_empty,
)
"""The promises for a dialect that do not depend on its examples."""
