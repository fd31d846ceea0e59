"""What was said is what calls hold: the builtin model is led to copy whole words, each once, and to leave nothing out.

The model copies token by token, and a model this small slips: it begins with one name and ends with another, gives one
value to two parameters, or ends a call before all that was asked for is in it. So some tokens become less likely:

* those with which a text value is no span of the conversation's words, or one that this tool has got already, or one
  that stands behind a word (``cues.json``) that is for another parameter: *from*, *to*, a parameter's name;
* those that begin a parameter that the tool has not, where its schema would allow any, and spaces without end;
* those with which words repeat what was only thought;
* those that leave out a parameter that may be left out, where the last message has one of the words that it may be, or
  where it is a number and the message has one that is in no value yet; those that begin one that is a number where the
  message has none;
* those that begin one more call where several values were copied, the last word that was said among them;
* those that begin another number, or turn off what the message has the name of, but for words such as *off*.

What the model is sure of, it still writes: ``+`` where the user said *plus*.
"""

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model import Model
from .around import Around
from .model import FOLDER

LESS: Final = 3.0
"""What is taken off the logits: the model has to hold it for 20 times as likely."""

_PARAMETER: Final = re.compile(r'"(.*?)":( optional)? (.*)')
_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_CHOICE: Final = re.compile(r'"([^"]*)"(?: or |,|$)')
_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class _Parameter(NamedTuple):
    """One of a tool's, as the chat template tells it.

    Attributes:
        optional: whether it may be left out.
        said: whether the last message has one of the words that it may be.
        number: whether it is one.
        switch: for a boolean, what the last message says of it.
        choices: whether there are such words.
        cued: the places in the conversation that a word of the last message tells to be for it.
        claimed: the places of the words that it may be, or for a boolean, of its name: they are in no other's text.
    """

    name: str
    optional: bool
    said: bool
    number: bool
    switch: bool | None
    choices: bool
    cued: frozenset[int]
    claimed: frozenset[int]


class _State:
    """A sequence: the model's state, and where its output is.

    Attributes:
        said: the tokens of the conversation.
        last: where its last message begins; 0: that speaks of what was said before.
        behind: where in that what stands behind a word begins, by these words.
        own: the places in it that are for the open value.
        others: the places in it that are not.
        final: the place in it of the last message's last word, but for polite ones.
        fresh: whether the next token is the first one of the words.
        tools: the tools' parameters, by their names.
        numbers: those of the last message.
        name: the tokens of the called tool's name so far.
        called: that name, of this call or the one before.
        parameters: the called tool's.
        at: how many of these the call has passed.
        open: the brackets that are open in the arguments; ``None`` outside of them.
        key: whether the next string is a key.
        string: ``""``, or that a ``key`` or a ``value`` is open.
        escaped: whether the next character stands for itself.
        text: the open string, or the arguments' values so far.
        spans: where what follows the open value so far stands in ``said``.
        size: how many tokens the open string has.
        used: the places in ``said`` that values of this tool were copied from.
        thought: the tokens of the thinking so far.
        thinking: whether it goes on.
    """

    __slots__ = (
        "at", "behind", "called", "escaped", "final", "fresh", "inner", "key", "last", "name", "numbers", "open",
        "others", "own", "parameters", "said", "size", "spans", "string", "text", "thinking",
        "thought", "tools", "used", "values",
    )  # fmt: skip

    def __init__(self, inner: Any, said: list[int], last: int, behind: dict[str, set[int]], numbers: list[str]) -> None:
        self.inner = inner
        self.said = said
        self.last = last
        self.behind = behind
        self.numbers = numbers
        self.tools: dict[str, list[_Parameter]] = {}
        self.own: frozenset[int] = frozenset()
        self.others: frozenset[int] = frozenset()
        self.final = -1
        self.fresh = False
        self.name: list[int] | None = None
        self.called = ""
        self.parameters: list[_Parameter] = []
        self.at = 0
        self.open: list[str] | None = None
        self.key = True
        self.string = ""
        self.escaped = False
        self.text = self.values = ""
        self.spans: list[int] = []
        self.size = 0
        self.used: set[int] = set()
        self.thought: list[int] = []
        self.thinking = True


class Copying(Around[_State]):
    """A model whose calls hold what was said.

    Args:
        model: what computes.
        less: how much less likely all else becomes; see `LESS`.
    """

    def __init__(self, model: Model, less: float = LESS) -> None:
        super().__init__(model)
        self._less = np.float32(less)
        token = self.tokenizer.token_to_id
        marks = json.loads((FOLDER / "parts.json").read_text(encoding="utf-8"))["marks"]
        self._user, self._assistant = token(marks["user"]), token(marks["assistant"])
        self._thought = token(marks["thought"])
        self._call, self._arguments, self._end = (token(marks[m]) for m in ("call", "arguments", "end"))
        told = json.loads((FOLDER / "cues.json").read_text(encoding="utf-8"))
        self._cues: dict[str, list[str]] = told["cues"]
        self._skipped = frozenset(told["skipped"])
        self._back = frozenset(told["back"])
        self._off = frozenset(told["off"])
        self._polite = frozenset(told["polite"])
        self._numbers: dict[str, str] = told["numbers"]
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        special = {i for i, added in self.tokenizer.get_added_tokens_decoder().items() if added.special}
        names = sorted(vocabulary, key=vocabulary.__getitem__)
        self._texts = ["" if i in special else n.replace("Ġ", " ").replace("Ċ", "\n") for i, n in enumerate(names)]
        self._bare = [vocabulary.get(n[1:], i) if n[0] == "Ġ" else i for i, n in enumerate(names)]
        self._quotes = [i for i, text in enumerate(self._texts) if text.startswith('"')]
        self._blank = [i for i, text in enumerate(self._texts) if text and not text.strip()]
        self._digits = [i for i, text in enumerate(self._texts) if text.strip() in {*"-0123456789"}]
        closing = [text.lstrip(' "]')[:1] for text in self._texts]
        self._switches = [[i for i, text in enumerate(self._texts) if text.strip()[:1] == c] for c in ("t", "f")]
        self._braces = [i for i, first in enumerate(closing) if first == "}"]
        self._commas = [i for i, first in enumerate(closing) if first == "," and '"' in self._texts[i]]

    def _begun(self, inner: Any, tokens: Sequence[int]) -> _State:
        """The state of a sequence after its prompt."""
        said = list(itertools.dropwhile(lambda token: token != self._user, tokens))
        head = self.tokenizer.decode(list(tokens[: len(tokens) - len(said)]), skip_special_tokens=False)
        last = len(said) - said[::-1].index(self._user) if said else 0
        end = next((i for i in range(last, len(said)) if said[i] == self._assistant), len(said))
        message = self.tokenizer.decode(said[last:end])
        words = self._words(said, last, end)
        behind = self._behind(words)
        if not self._back.isdisjoint(_WORD.findall(message.lower())):
            last = 0
        state = _State(inner, said, last, behind, self._said_numbers(message))
        state.final = next((at for at, word in reversed(words) if _WORD.search(word) and word not in self._polite), -1)
        state.tools = self._tools(head, words, _plain(message), state.behind)
        state.fresh = tokens[-1] == self._thought
        state.thinking = not state.fresh
        return state

    def _next(self, state: _State, token: int, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        self._take(state, token)
        if state.thinking:
            state.thought.append(token)
            state.thinking = token != self._thought
        elif state.name is None and state.open is None:
            logits[self._only_thought(state, token)] -= 2 * self._less
        if state.open:
            return self._likely(state, logits)
        if token == self._end and self._over(state):
            logits[self._call] -= 8 * self._less  # it would say the last one again
        return logits

    def _only_thought(self, state: _State, token: int) -> list[int]:
        """What stood behind a token in the thinking, and nowhere in the conversation: words say it in their own way."""
        told = {b for a, b in itertools.pairwise(state.said) if a == token}
        return [b for a, b in itertools.pairwise(state.thought) if a == token and b not in told]

    def _tools(
        self, head: str, words: Sequence[tuple[int, str]], message: str, behind: dict[str, set[int]]
    ) -> dict[str, list[_Parameter]]:
        """What the prompt declares."""
        tools: dict[str, list[_Parameter]] = {}
        found: list[_Parameter] = []
        for line in head.split("\n"):
            if line.startswith("#"):
                found = tools.setdefault(line[1:], [])
            elif (match := _PARAMETER.match(line)) and tools:
                name, optional, told = match.groups()
                choices = [_plain(choice) for choice in _CHOICE.findall(told)] if told.startswith('"') else []
                said = any(choice.strip() and choice in message for choice in choices)
                number = told.startswith(("integer", "number"))
                text = told.startswith(("string", "array", "any"))
                cued = self._cued(name, behind) if text else frozenset()
                switch, claiming = None, {choice.strip() for choice in choices}
                if told.startswith("boolean"):
                    claiming = _name(name) - self._skipped
                    if not (claiming | self._off).isdisjoint(word for _, word in words):
                        switch = self._off.isdisjoint(word for _, word in words)
                elif number:
                    claiming = {word for _, word in words if word[:1].isdigit() or word in self._numbers}
                    claiming = claiming if len(claiming) == 1 else set()
                claimed = frozenset(at for at, word in words if word in claiming)
                found.append(_Parameter(name, bool(optional), said, number, switch, bool(choices), cued, claimed))
        return tools

    def _said_numbers(self, message: str) -> list[str]:
        """The numbers of a message, in digits."""
        return [
            self._numbers.get(word, word)
            for word in re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+", message.lower())
            if word[0].isdigit() or word in self._numbers
        ]

    def _words(self, said: Sequence[int], start: int, end: int) -> list[tuple[int, str]]:
        """The words of a part of the conversation, and what stands between them, with their places."""
        begins = [i for i in range(start, end) if self._apart(said, i)]
        return [
            (at, "".join(self._texts[token] for token in said[at:stop]).strip().lower())
            for at, stop in itertools.pairwise([*begins, end])
        ]

    def _behind(self, words: Sequence[tuple[int, str]]) -> dict[str, set[int]]:
        """Where what stands behind a word begins, by these words."""
        found: dict[str, set[int]] = {}
        before = ""
        for at, word in words:
            if word in self._skipped or (before and not _WORD.search(word)):
                continue
            found.setdefault(before, set()).add(at)
            before = word
        return found

    def _cued(self, name: str, behind: dict[str, set[int]]) -> frozenset[int]:
        """What is for a parameter: behind a word of its name, else behind one that leads to such a word."""
        own = _name(name)
        for words in (own, {cue for cue, names in self._cues.items() if own & set(names)}):
            if found := frozenset().union(*(behind.get(word, ()) for word in words)):
                return found
        return frozenset()

    # -- the output so far -----------------------------------------------------------------------------------------

    def _take(self, state: _State, token: int) -> None:
        """Follow the output by one token."""
        fresh, state.fresh = state.fresh, token == self._thought
        if token == self._call:
            state.name = []
        elif token == self._arguments:
            self._begin(state)
        elif token == self._end:
            state.open = None
        elif state.name is not None:
            state.name.append(token)
        elif fresh and self._texts[token].startswith("{"):  # words that a schema constrains
            self._begin(state)
            self._read(state, self._texts[token])
        elif state.open is not None:
            if state.string and not self._texts[token].startswith('"'):
                said, first = state.said, state.size == 0
                state.spans = [i + 1 for i in state.spans if (self._bare[said[i]] if first else said[i]) == token]
                state.size += 1
            self._read(state, self._texts[token])

    def _begin(self, state: _State) -> None:
        """The arguments of a call."""
        called = self.tokenizer.decode(state.name or [])
        if called != state.called:
            state.used = set()
        state.called, state.name = called, None
        state.parameters = state.tools.get(called, [])
        state.at = 0
        state.open, state.key, state.string, state.values = [], True, "", ""

    def _read(self, state: _State, text: str) -> None:
        """Follow the JSON."""
        assert state.open is not None
        for char in text:
            if state.string:
                if char == '"' and not state.escaped:
                    self._close(state)
                else:
                    state.text += char
                state.escaped = char == "\\" and not state.escaped
            elif char == '"':
                state.string = "key" if state.key and state.open[-1:] == ["{"] else "value"
                state.key = False
                state.text, state.size = "", 0
                state.spans = self._begins(state) if state.string == "value" else []
            elif char in "{[":
                state.open.append(char)
                state.key = True
            elif char in "}]":
                del state.open[-1:]
            elif char == ",":
                state.key = True
            state.values += char if not state.string else ""

    def _close(self, state: _State) -> None:
        """The end of a string."""
        if state.string == "key":
            names = [p.name for p in state.parameters]
            state.own = self._cued(state.text, state.behind)
            if state.open == ["{"] and state.text in names:
                state.at = names.index(state.text) + 1
            rest = [p for p in state.parameters if p.name != state.text]
            state.others = frozenset().union(*(p.claimed for p in rest)) - state.own
        else:
            state.values += state.text
            for end in state.spans[-1:]:
                state.used.update(range(end - state.size, end))
        state.string = ""

    def _begins(self, state: _State) -> list[int]:
        """Where a value may begin: what is for it, else what is for no other, in the last message if there is any."""
        if state.at and state.parameters[state.at - 1].choices:
            return []
        others = frozenset().union(*(p.cued for p in state.parameters)) - state.own
        found = [
            i
            for i, token in enumerate(state.said)
            if i not in state.used
            and i not in state.others
            and self._texts[token].strip(" ,;:?!")
            and self._apart(state.said, i)
        ]
        for some in (
            [i for i in found if i in state.own],
            [i for i in found if i >= state.last and i not in others],
        ):
            if some:
                return some
        return found

    def _apart(self, said: Sequence[int], i: int) -> bool:
        """Whether something else than the rest of a word begins here."""
        before = self._texts[said[i - 1]][-1:] if i else ""
        here = self._texts[said[i]][:1] if i < len(said) else ""
        return not (_in_word(before) and _in_word(here))

    def _leads(self, state: _State, i: int) -> bool:
        """Whether what is for another parameter begins here, or behind the mark here."""
        return i in state.others or (i + 1 in state.others and not _WORD.search(self._texts[state.said[i]]))

    def _ends(self, said: Sequence[int], i: int) -> bool:
        """Whether a value may end here: before no rest of a word, nor before ``.org`` or ``:30``."""
        rest = "".join(self._texts[token] for token in said[i : i + 2])
        return self._apart(said, i) and not (rest[:1] in {*".@:-_/"} and _in_word(rest[1:2]))

    def _over(self, state: _State) -> bool:
        """Whether several values were copied, and the last word that was said is among them: no call is to follow."""
        runs = sum(i - 1 not in state.used for i in state.used)
        return runs > 1 and state.final in state.used

    # -- what may come ---------------------------------------------------------------------------------------------

    def _likely(self, state: _State, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        wanted = self._wanted(state)
        if state.string == "key":
            return self._key(state, logits, wanted)
        if state.spans and state.string == "value":
            said = state.said
            spans = [i for i in state.spans if i < len(said) and not (state.size and self._leads(state, i))]
            follow = [said[i] if state.size else self._bare[said[i]] for i in spans]
            follow = [token for token in follow if self._texts[token]]
            if state.size and any(self._ends(said, i) for i in state.spans):
                follow += self._quotes
            less = logits - self._less
            less[follow] = logits[follow]
            logits = less
        if not state.string:  # JSON would allow any number of them
            logits = logits.copy()
            logits[self._blank] -= 4 * self._less
            if state.values.rstrip()[-1:] == ":":
                self._first(state, logits)
        if state.open == ["{"] and (wanted is not None or state.parameters[state.at :] == []):
            logits = logits.copy()
            logits[self._commas if wanted is None else self._braces] -= (1 if wanted is None else 2) * self._less
        return logits

    def _first(self, state: _State, logits: NDArray[np.float32]) -> None:
        """The beginning of what is no text: a number that was said, and what was said of a switch."""
        given = _NUMBER.findall(state.values)
        if numbers := [n for n in state.numbers if n not in given] or state.numbers:
            firsts = {n[0] for n in numbers}
            logits[[i for i in self._digits if self._texts[i].strip() not in firsts]] -= 2 * self._less
        switch = state.parameters[state.at - 1].switch if state.at else None
        if switch is not None:
            logits[self._switches[switch]] -= 2 * self._less

    def _key(self, state: _State, logits: NDArray[np.float32], wanted: int | None) -> NDArray[np.float32]:
        if state.open != ["{"] or not state.parameters:
            return logits
        stop = None if wanted is None else wanted + 1
        names = [
            p.name
            for p in state.parameters[state.at : stop]
            if p.name.startswith(state.text) and (state.numbers or not (p.number and p.optional) or not state.last)
        ]
        rests = [name[len(state.text) :] for name in names]
        follow = [i for i, text in enumerate(self._texts) if text and any(rest.startswith(text) for rest in rests)]
        follow += self._quotes if "" in rests else []
        if not follow:
            return logits
        less = logits - self._less
        less[follow] = logits[follow]
        return less

    def _wanted(self, state: _State) -> int | None:
        """The next parameter that was said something of."""
        for i, parameter in enumerate(state.parameters[state.at :], state.at):
            if parameter.said:
                return i
            if parameter.number and not parameter.choices:
                given = _NUMBER.findall(state.values + " " + state.text)
                if any(number not in given for number in state.numbers):
                    return i
        return None


def _name(name: str) -> set[str]:
    """The words of a parameter's name."""
    return {word.lower() for word in _NAME.findall(name)}


def _plain(text: str) -> str:
    """The words of a text, with spaces around them."""
    return " ".join(("", *_WORD.findall(text.lower()), ""))


def _in_word(char: str) -> bool:
    return char.isalnum() or char > "\x7f"  # parts of characters are letters, mostly
