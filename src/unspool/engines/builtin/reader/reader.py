"""Reads what a conversation asks for: calls, if its words name tool and arguments; words, if it asks for no call."""

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from .clauses import clauses, repeats
from .corrections import corrected
from .fill import fill, value
from .filling import Filled, is_cased, named
from .follow import Call, answered, earlier, follow_up, opened, turned
from .formats import town
from .message import Message
from .prompt import NUMERIC, Parameter, Prompt, Tool, Turn
from .refer import changed, known_answer, meant, picked, referred, subject
from .results import told
from .reworded import reckoned, reworded
from .scores import only_sets, said_out
from .spans import numbers
from .spelling import mended
from .talk import BEYOND, NO_FIT, itself, listed, lives, reaction, refused, remark, talk, unable
from .words import BACK, QUESTION, SETS, STOP, TALK, first_word, parts_of, plain
from .work import results_text, work

MOST_CHARACTERS: Final = 400
"""Limits of what is read. Longer messages, and more tools or parameters, are left to the model."""
MOST_WORDS: Final = 120
MOST_TOOLS: Final = 32
MOST_PARAMETERS: Final = 16
MOST_CALLS: Final = 8
_CODE: Final = 2
"""The most words of a code without a digit."""
_MOST_ASKED: Final = 4
"""The most arguments that a question asks for."""
_RUNS: Final = re.compile(r"\s{4}|\d{32}")
"""Text that occurs in no real request, and whose reading would take quadratic time."""


class Answer(NamedTuple):
    """An answer, in calls or in words, and its reason."""

    calls: list[Call]
    words: str = ""
    why: str = ""

    @property
    def thought(self) -> str:
        """The reasoning before the answer."""
        if not self.calls:
            return self.why or "This is small talk. No tool is needed."
        return f"I use {listed(list(dict.fromkeys(name for name, _ in self.calls)))}."


def read(prompt: Prompt) -> Answer | None:
    """The answer to a conversation; ``None`` if its words are not clear."""
    if prompt.turns and prompt.turns[-1].role == "result":
        said = results_text(prompt) or told(prompt)
        return Answer([], said, "The tool has answered.") if said else None
    if prompt.turns and prompt.turns[-1] == ("user", "", {}):
        return Answer([], TALK["ok"])
    if not prompt.turns or prompt.turns[-1].role != "user" or not _bounded(prompt, prompt.turns[-1].text):
        return None
    before = earlier(prompt)
    text = reworded(prompt, before, corrected(prompt.tools, prompt.turns[-1].text))
    words = plain(text).split()
    if said := talk(text, words):
        return Answer([], said)
    if about := itself(prompt, text, words):
        return Answer([], *about)
    if lives(text, words):
        return Answer([], BEYOND, "No tool is for this.")
    if before and (said := reaction(prompt.tools, text, words)):
        return Answer([], said)
    text = opened(text)
    if (summed := reckoned(prompt, text)) != text:
        text = summed
    elif calls := turned(prompt, text) or picked(prompt, before, text) or changed(prompt, before, text):
        return Answer(calls)
    elif said := known_answer(prompt, before, text):
        return Answer([], said, "The tool has answered this.")
    elif (calls := follow_up(prompt, text)) is not None or (calls := referred(prompt, before, text)) is not None:
        return Answer(calls)
    if (resumed := answered(prompt)) is not None and not resumed[1].missing:
        return Answer([(resumed[0].name, given) for given in resumed[1].calls()])
    if done := work(prompt, text):
        return Answer(done)
    if said := remark(prompt.tools, text):
        return Answer([], said)
    asked = clauses(prompt.tools, text)
    if not asked and (spelled := mended(prompt.tools, text)) != text:
        text, asked = spelled, clauses(prompt.tools, spelled)
    if asked and all(unable(tool, part) or only_sets(tool, first_word(text)) for tool, part in asked):
        return Answer([], NO_FIT, "No tool fits.")
    if asked:
        answer = _calls(prompt, text, asked)
        spelled = mended(prompt.tools, text) if answer is None else text
        return answer if spelled == text else _calls(prompt, spelled, clauses(prompt.tools, spelled) or asked)
    no = refused(prompt.tools, text, words)
    return Answer([], *no) if no else None


def arguments(prompt: Prompt, name: str) -> dict[str, Any] | None:
    """The arguments of a tool that must be called; ``None`` if one is missing."""
    tool = next((t for t in prompt.tools if t.name == name), None)
    last = next((t.text for t in reversed(prompt.turns) if t.role == "user"), "")
    if tool is None or not _bounded(prompt, last):
        return None
    filled = fill(tool, Message(last))
    return None if filled.missing else filled.calls()[0]


def valued(prompt: Prompt) -> Callable[[str], str | None] | None:
    """A function that returns the last message's text for a key of JSON; ``None`` if the message is not read."""
    last = next((t.text for t in reversed(prompt.turns) if t.role == "user"), "")
    return partial(value, message=Message(last)) if _bounded(prompt, last) else None


def _bounded(prompt: Prompt, text: str) -> bool:
    """Whether a message is within the limits."""
    return (
        0 < len(text) <= MOST_CHARACTERS
        and not _RUNS.search(text)
        and len(Message(text)) <= MOST_WORDS
        and len(prompt.tools) <= MOST_TOOLS
        and all(len(t.parameters) <= MOST_PARAMETERS for t in prompt.tools)
    )


def _calls(prompt: Prompt, text: str, asked: list[tuple[Tool, str]]) -> Answer | None:
    """The calls of a message's clauses. Missing values come from other clauses, or from earlier calls."""
    message = Message(text)
    parts = [Message(part) for _, part in asked]
    filled = [(tool, fill(tool, m, cased=is_cased(message))) for (tool, _), m in zip(asked, parts, strict=True)]
    for (_, above), (_, f), (_, part) in zip(filled, filled[1:], asked[1:], strict=False):
        if repeats(part):
            f.missing = [p for p in f.missing if p.name not in above.values]
            f.values = above.values | f.values
    for (one, f), (other, g) in itertools.permutations(filled, 2):
        if one is other:  # *export users and orders as json*
            f.values |= {k: g.values[k] for k in f.assumed - g.assumed if k in g.values}
    before = earlier(prompt)
    shared = _shared(filled) if len(filled) > 1 else {}
    back = bool(BACK & message.at.keys())
    known = _known(prompt, before) if len(filled) == 1 or back else {}
    calls: list[Call] = []
    for i, (tool, f) in enumerate(filled):
        if len(filled) == 1 and before and tool.name == before[-1].text and said_out(tool, parts[i]):
            f.values |= _same_place(tool, f, before[-1].arguments)
        for p in tool.parameters:
            if not p.optional and named(p, SETS["codes"]) and _no_code(f.values.get(p.name), known=bool(before)):
                del f.values[p.name]
                f.missing.append(p)
        if not _resolved(tool, f, filled[:i], may_refer=bool(before)):
            return None
        for p in f.missing[:]:
            kind = _kind(p)
            if kind in shared and (kind in SETS["shared"] or not p.kinds):
                f.put(p, shared[kind][0], several=shared[kind][1])
            elif (same := next((known[k] for k in (p.name, kind) if k in known), None)) is not None or (
                (same := _subject(prompt, before, p, filled[:i], referred=back)) is not None
            ):
                f.put(p, same, several=False)
        if f.missing:
            return _ask(tool, f, parts[i]) if len(filled) == 1 and not before else None
        calls += [(tool.name, given) for given in f.calls()]
    unique = [c for i, c in enumerate(calls) if c not in calls[:i]]
    return Answer(unique) if len(unique) <= MOST_CALLS else None


def _same_place(tool: Tool, f: Filled, given: dict[str, Any]) -> dict[str, Any]:
    """The place of the last call, if a message for the same tool names none: *do I need a coat?*"""
    places = [p.name for p in tool.parameters if p.optional and p.kinds[:1] == ("place",)]
    unsaid = len(places) == 1 and places[0] not in f.values and not f.several
    return {k: given[k] for k in places if unsaid and k in given}


def _ask(tool: Tool, f: Filled, message: Message) -> Answer | None:
    """A question for missing values: for a place, if only that is missing; for all, if no word may be a value."""
    names = [_spoken(p) for p in f.missing]
    first = [w.low for w in message.words[:2]]
    if first[1:] == ["you"] and QUESTION.match(first[0]):  # *do you like music?*
        return Answer([], BEYOND, "No tool is for this.")
    if [p for p in tool.parameters if _kind(p) == "place"] == f.missing and len(names) == 1:
        return Answer([], f"Please say for which {names[0]}.", f"The {names[0]} is missing.")
    chosen = f.values and any(p.choices for p in f.missing)
    unsaid = all(p.type in NUMERIC for p in f.missing) and not any(map(message.free, numbers(message)))
    if len(names) > _MOST_ASKED or chosen or not (unsaid or said_out(tool, message)):
        return None
    verb = "is" if len(names) == 1 and not names[0].endswith("s") else "are"
    return Answer([], f"Please say the {listed(names)}.", f"The {listed(names)} {verb} missing.")


def _spoken(p: Parameter) -> str:
    """What a parameter is called in a question for it."""
    name = " ".join(parts_of(p.name)) or p.name
    if len(name) > 1 and name not in STOP:
        return name
    return "recipient" if p.kinds[:1] == ("email",) else f'value of "{p.name}"'


def _shared(filled: list[tuple[Tool, Filled]]) -> dict[str, tuple[Any, bool]]:
    """The values of a message by their kinds, each with whether there are several."""
    found: dict[str, tuple[Any, bool]] = {}
    for tool, f in filled:
        for p in tool.parameters:
            if f.several and f.several[0] == p.name:
                found[_kind(p)] = (f.said.get(p.name, f.several[1]), True)
            elif p.name in f.values:
                found[_kind(p)] = (f.said.get(p.name, f.values[p.name]), False)
    return found


def _subject(
    prompt: Prompt, before: list[Turn], p: Parameter, clauses: list[tuple[Tool, Filled]], *, referred: bool
) -> Any:
    """What *it* means for a parameter: the only text of the previous clause, or of the last call and its result.

    Without such a word (*the status of my order*), only what a result calls as the parameter is called.
    """
    if not clauses:
        return meant(prompt, before, p, referred=referred)
    tool, f = clauses[-1]
    same = (f.values[q.name] for q in tool.parameters if q.name in f.values and parts_of(q.name) == parts_of(p.name))
    if referred and (value := next(same, None)) is not None:
        return value
    given = [(q, f.values.get(q.name)) for q in tool.parameters if not q.optional]
    return subject(p, given) if referred else None


def _known(prompt: Prompt, before: list[Turn]) -> dict[str, Any]:
    """The values of earlier calls, by the names of their parameters and by their kinds."""
    tools = {t.name: t for t in prompt.tools}
    return {
        key: town(turn.arguments[p.name]) if p.kinds[:1] == ("zone",) and key != p.name else turn.arguments[p.name]
        for turn in before
        if turn.text in tools
        for p in tools[turn.text].parameters
        if p.name in turn.arguments
        for key in (p.name, _kind(p))
    }


def _resolved(tool: Tool, f: Filled, before: list[tuple[Tool, Filled]], *, may_refer: bool) -> bool:
    """Replace a word that refers to the previous clause by its text: *define zeal and translate it*.

    Args:
        may_refer: whether it may refer to the last call and its result, which others look for.

    Returns:
        Whether no such reference is left.
    """
    for p in tool.parameters:
        spoken = p.kinds[:1] != ("language",)  # its code may be *it*
        if spoken and p.type == "string" and str(f.values.get(p.name, "")).lower() in SETS["pronouns"]:
            if may_refer and not before:
                del f.values[p.name]
                f.missing += [] if p.optional else [p]
                continue
            alike = [other.values[p.name] for t, other in before if t.name == tool.name and p.name in other.values]
            said = alike[-1:] or [v for _, other in before for v in other.values.values() if isinstance(v, str)]
            if len(said) != 1:
                return False
            f.values[p.name] = said[0]
    return True


def _no_code(value: Any, *, known: bool) -> bool:
    """Whether a value has no digit and several words, as no number and no id has; one word if others may be known."""
    wordy = isinstance(value, str) and not any(map(str.isdigit, value))
    return wordy and (len(value.split()) >= _CODE or (known and value.isalpha() and value.islower()))


def _kind(p: Parameter) -> str:
    kind = p.kinds[0] if p.kinds else p.name
    return "place" if kind == "zone" else kind
