"""Makes the builtin model copy the values of calls from the conversation: whole words, each once, and all of them.

The model copies token by token, and so small a model makes mistakes. It begins with one name and ends with another,
gives one value to two parameters, or ends a call too early. So these tokens become less likely:

* tokens that make a text value that is not a span of the conversation's words, that this tool has already, or that
  follows a word (``cues.json``) for another parameter, such as *from*, *to*, or a parameter's name;
* tokens that begin a parameter that the tool lacks, if its schema allows any, and endless spaces;
* tokens with which an answer repeats words that appear only in the reasoning;
* tokens that leave out an optional parameter if the last message has one of its words, or if it is a number and the
  message has one that no value uses yet; and tokens that begin a number if the message has none;
* tokens that begin one more call if several values were copied, and the message's last word is among them;
* tokens that begin a number that the message lacks, or that turn off a switch that the message names, unless it has a
  word such as *off*.

If the model is sure enough, it still writes such a token, such as ``+`` for *plus*.
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
"""The penalty on logits: the model must consider the token 20 times as likely."""

_PARAMETER: Final = re.compile(r'"(.*?)":( optional)? (.*)')
_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_CHOICE: Final = re.compile(r'"([^"]*)"(?: or |,|$)')
_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class _Parameter(NamedTuple):
    """A parameter of a tool, as the chat template describes it.

    Attributes:
        optional: whether it may be left out.
        said: whether the last message has one of its choices.
        number: whether it is a number.
        switch: for a boolean, the value that the last message implies.
        choices: whether it has a list of choices.
        cued: the positions in the conversation that a word of the last message claims for it.
        claimed: the positions of its choices or, for a boolean, of its name. No other parameter's text uses them.
    """

    name: str
    optional: bool
    said: bool
    number: bool
    switch: bool | None
    choices: bool
    cued: frozenset[int]
    claimed: frozenset[int]


class _Said(NamedTuple):
    """A conversation.

    Attributes:
        tokens: the tokens of its messages.
        last: the position of the last message; 0 if that refers to earlier ones.
        behind: for each word of the last message, the positions right after it.
        numbers: the numbers of the last message.
        final: the position of the last message's last word, ignoring polite ones.
        tools: the tools' parameters, by the tools' names.
    """

    tokens: list[int]
    last: int
    behind: dict[str, set[int]]
    numbers: list[str]
    final: int
    tools: dict[str, list[_Parameter]]


class _Call:
    """The state of a call's arguments while their JSON is written.

    Attributes:
        name: the tool's name.
        parameters: the tool's parameters.
        used: the positions in the conversation from which values of this tool were copied.
        at: the number of parameters that the call has passed.
        open: the open brackets; ``None`` after the call.
        key: whether the next string is a key.
        string: ``key`` or ``value`` if such a string is open, else ``""``.
        escaped: whether the next character is escaped.
        text: the open string.
        values: the values so far.
        size: the number of tokens of the open string.
        spans: the positions in the conversation at which the open value may continue.
        own: the positions that belong to the open value.
        others: the positions that belong to other values.
    """

    __slots__ = (
        "at", "escaped", "key", "name", "open", "others", "own", "parameters", "size", "spans", "string", "text",
        "used", "values",
    )  # fmt: skip

    def __init__(self, name: str, parameters: list[_Parameter], used: set[int]) -> None:
        self.name = name
        self.parameters = parameters
        self.used = used
        self.at = 0
        self.open: list[str] | None = []
        self.key = True
        self.string = ""
        self.escaped = False
        self.text = self.values = ""
        self.size = 0
        self.spans: list[int] = []
        self.own: frozenset[int] = frozenset()
        self.others: frozenset[int] = frozenset()


class _State:
    """A sequence: the model's state, the conversation, and the state of the output.

    Attributes:
        call: the current call, or the previous one.
        name: the tokens of the called tool's name so far; ``None`` outside a name.
        thought: the tokens of the reasoning so far.
        thinking: whether the output is still in the reasoning.
        fresh: whether the next token is the first one of the answer in words.
    """

    __slots__ = ("call", "fresh", "inner", "name", "said", "thinking", "thought")

    def __init__(self, inner: Any, said: _Said, *, fresh: bool) -> None:
        self.inner = inner
        self.said = said
        self.call: _Call | None = None
        self.name: list[int] | None = None
        self.thought: list[int] = []
        self.thinking = not fresh
        self.fresh = fresh


class Copying(Around[_State]):
    """A model that is led to copy the values of calls from the conversation.

    Args:
        model: the inner model.
        less: the penalty on all other tokens; see `LESS`.
    """

    def __init__(self, model: Model, less: float = LESS) -> None:
        super().__init__(model)
        self._less = np.float32(less)
        token = self.tokenizer.token_to_id
        marks = json.loads((FOLDER / "parts.json").read_text(encoding="utf-8"))["marks"]
        self._user, self._assistant = token(marks["user"]), token(marks["assistant"])
        self._thought = token(marks["thought"])
        self._call, self._arguments, self._end = (token(marks[m]) for m in ("call", "arguments", "end"))
        cues = json.loads((FOLDER / "cues.json").read_text(encoding="utf-8"))
        self._cues: dict[str, list[str]] = cues["cues"]
        self._skipped = frozenset(cues["skipped"])
        self._back = frozenset(cues["back"])
        self._off = frozenset(cues["off"])
        self._polite = frozenset(cues["polite"])
        self._numbers: dict[str, str] = cues["numbers"]
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
        final = next((at for at, word in reversed(words) if _WORD.search(word) and word not in self._polite), -1)
        tools = self._tools(head, words, _plain(message), behind)
        prompt_said = _Said(said, last, behind, self._said_numbers(message), final, tools)
        return _State(inner, prompt_said, fresh=tokens[-1] == self._thought)

    def _next(self, state: _State, token: int, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        self._take(state, token)
        if state.thinking:
            state.thought.append(token)
            state.thinking = token != self._thought
        elif state.name is None and (state.call is None or state.call.open is None):
            logits[self._only_thought(state, token)] -= 2 * self._less
        if state.call is not None and state.call.open:
            return self._likely(state.said, state.call, state.call.open, logits)
        if token == self._end and state.call is not None and self._over(state.said, state.call):
            logits[self._call] -= 8 * self._less  # another call would repeat the last one
        return logits

    def _only_thought(self, state: _State, token: int) -> list[int]:
        """The tokens that followed this token in the reasoning, but nowhere in the conversation."""
        followers = {b for a, b in itertools.pairwise(state.said.tokens) if a == token}
        return [b for a, b in itertools.pairwise(state.thought) if a == token and b not in followers]

    def _tools(
        self, head: str, words: Sequence[tuple[int, str]], message: str, behind: dict[str, set[int]]
    ) -> dict[str, list[_Parameter]]:
        """The tools that the prompt declares."""
        tools: dict[str, list[_Parameter]] = {}
        found: list[_Parameter] = []
        for line in head.split("\n"):
            if line.startswith("#"):
                found = tools.setdefault(line[1:], [])
            elif (match := _PARAMETER.match(line)) and tools:
                name, optional, kind = match.groups()
                choices = [_plain(choice) for choice in _CHOICE.findall(kind)] if kind.startswith('"') else []
                said = any(choice.strip() and choice in message for choice in choices)
                number = kind.startswith(("integer", "number"))
                text = kind.startswith(("string", "array", "any"))
                cued = self._cued(name, behind) if text else frozenset()
                switch, claiming = None, {choice.strip() for choice in choices}
                if kind.startswith("boolean"):
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
        """The words of a part of the conversation and the text between them, with their positions."""
        begins = [i for i in range(start, end) if self._apart(said, i)]
        return [
            (at, "".join(self._texts[token] for token in said[at:stop]).strip().lower())
            for at, stop in itertools.pairwise([*begins, end])
        ]

    def _behind(self, words: Sequence[tuple[int, str]]) -> dict[str, set[int]]:
        """For each word, the positions right after it."""
        found: dict[str, set[int]] = {}
        before = ""
        for at, word in words:
            if word in self._skipped or (before and not _WORD.search(word)):
                continue
            found.setdefault(before, set()).add(at)
            before = word
        return found

    def _cued(self, name: str, behind: dict[str, set[int]]) -> frozenset[int]:
        """The positions for a parameter: after a word of its name, or else after a word that leads to such a word."""
        own = _name(name)
        for words in (own, {cue for cue, names in self._cues.items() if own & set(names)}):
            if found := frozenset().union(*(behind.get(word, ()) for word in words)):
                return found
        return frozenset()

    # -- the output so far -----------------------------------------------------------------------------------------

    def _take(self, state: _State, token: int) -> None:
        """Update the state with one token of the output."""
        fresh, state.fresh = state.fresh, token == self._thought
        call = state.call
        if token == self._call:
            state.name = []
        elif token == self._arguments:
            self._begin(state)
        elif token == self._end:
            if call is not None:
                call.open = None
        elif state.name is not None:
            state.name.append(token)
        elif fresh and self._texts[token].startswith("{"):  # an answer in words that a schema constrains
            self._read(state.said, self._begin(state), self._texts[token])
        elif call is not None and call.open is not None:
            if call.string and not self._texts[token].startswith('"'):
                said, first = state.said.tokens, call.size == 0
                call.spans = [i + 1 for i in call.spans if (self._bare[said[i]] if first else said[i]) == token]
                call.size += 1
            self._read(state.said, call, self._texts[token])

    def _begin(self, state: _State) -> _Call:
        """The state at the beginning of a call's arguments."""
        name, before = self.tokenizer.decode(state.name or []), state.call
        used = before.used if before is not None and before.name == name else set()
        state.call, state.name = _Call(name, state.said.tools.get(name, []), used), None
        return state.call

    def _read(self, said: _Said, call: _Call, text: str) -> None:
        """Update the state with a piece of JSON."""
        assert call.open is not None
        for char in text:
            if call.string:
                if char == '"' and not call.escaped:
                    self._close(said, call)
                else:
                    call.text += char
                call.escaped = char == "\\" and not call.escaped
            elif char == '"':
                call.string = "key" if call.key and call.open[-1:] == ["{"] else "value"
                call.key = False
                call.text, call.size = "", 0
                call.spans = self._begins(said, call) if call.string == "value" else []
            elif char in "{[":
                call.open.append(char)
                call.key = True
            elif char in "}]":
                del call.open[-1:]
            elif char == ",":
                call.key = True
            call.values += char if not call.string else ""

    def _close(self, said: _Said, call: _Call) -> None:
        """Update the state at the end of a string."""
        if call.string == "key":
            names = [p.name for p in call.parameters]
            call.own = self._cued(call.text, said.behind)
            if call.open == ["{"] and call.text in names:
                call.at = names.index(call.text) + 1
            rest = [p for p in call.parameters if p.name != call.text]
            call.others = frozenset().union(*(p.claimed for p in rest)) - call.own
        else:
            call.values += call.text
            for end in call.spans[-1:]:
                call.used.update(range(end - call.size, end))
        call.string = ""

    def _begins(self, said: _Said, call: _Call) -> list[int]:
        """The positions where a value may begin: its own; or else those in the last message that belong to no other
        value; or else any."""
        if call.at and call.parameters[call.at - 1].choices:
            return []
        others = frozenset().union(*(p.cued for p in call.parameters)) - call.own
        found = [
            i
            for i, token in enumerate(said.tokens)
            if i not in call.used
            and i not in call.others
            and self._texts[token].strip(" ,;:?!")
            and self._apart(said.tokens, i)
        ]
        for some in (
            [i for i in found if i in call.own],
            [i for i in found if i >= said.last and i not in others],
        ):
            if some:
                return some
        return found

    def _apart(self, said: Sequence[int], i: int) -> bool:
        """Whether the token at ``i`` begins something other than the rest of a word."""
        before = self._texts[said[i - 1]][-1:] if i else ""
        here = self._texts[said[i]][:1] if i < len(said) else ""
        return not (_in_word(before) and _in_word(here))

    def _leads(self, said: _Said, call: _Call, i: int) -> bool:
        """Whether text for another parameter begins here, or after the mark here."""
        return i in call.others or (i + 1 in call.others and not _WORD.search(self._texts[said.tokens[i]]))

    def _ends(self, said: Sequence[int], i: int) -> bool:
        """Whether a value may end here: not before the rest of a word, nor before ``.org`` or ``:30``."""
        rest = "".join(self._texts[token] for token in said[i : i + 2])
        return self._apart(said, i) and not (rest[:1] in {*".@:-_/"} and _in_word(rest[1:2]))

    def _over(self, said: _Said, call: _Call) -> bool:
        """Whether no call should follow, because several values were copied, including the message's last word."""
        runs = sum(i - 1 not in call.used for i in call.used)
        return runs > 1 and said.final in call.used

    # -- what may come ---------------------------------------------------------------------------------------------

    def _likely(
        self, said: _Said, call: _Call, brackets: list[str], logits: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        wanted = _wanted(said, call)
        if call.string == "key":
            return self._key(said, call, logits, wanted)
        if call.spans and call.string == "value":
            tokens = said.tokens
            spans = [i for i in call.spans if i < len(tokens) and not (call.size and self._leads(said, call, i))]
            follow = [tokens[i] if call.size else self._bare[tokens[i]] for i in spans]
            follow = [token for token in follow if self._texts[token]]
            if call.size and any(self._ends(tokens, i) for i in call.spans):
                follow += self._quotes
            less = logits - self._less
            less[follow] = logits[follow]
            logits = less
        if not call.string:  # JSON would allow any number of spaces
            logits = logits.copy()
            logits[self._blank] -= 4 * self._less
            if call.values.rstrip()[-1:] == ":":
                self._first(said, call, logits)
        if brackets == ["{"] and (wanted is not None or call.parameters[call.at :] == []):
            logits = logits.copy()
            logits[self._commas if wanted is None else self._braces] -= (1 if wanted is None else 2) * self._less
        return logits

    def _first(self, said: _Said, call: _Call, logits: NDArray[np.float32]) -> None:
        """Lead the beginning of a value that is not text: to a number of the message, or a switch's implied value."""
        given = _NUMBER.findall(call.values)
        if numbers := [n for n in said.numbers if n not in given] or said.numbers:
            firsts = {n[0] for n in numbers}
            logits[[i for i in self._digits if self._texts[i].strip() not in firsts]] -= 2 * self._less
        switch = call.parameters[call.at - 1].switch if call.at else None
        if switch is not None:
            logits[self._switches[switch]] -= 2 * self._less

    def _key(self, said: _Said, call: _Call, logits: NDArray[np.float32], wanted: int | None) -> NDArray[np.float32]:
        if call.open != ["{"] or not call.parameters:
            return logits
        stop = None if wanted is None else wanted + 1
        names = [
            p.name
            for p in call.parameters[call.at : stop]
            if p.name.startswith(call.text) and (said.numbers or not (p.number and p.optional) or not said.last)
        ]
        rests = [name[len(call.text) :] for name in names]
        follow = [i for i, text in enumerate(self._texts) if text and any(rest.startswith(text) for rest in rests)]
        follow += self._quotes if "" in rests else []
        if not follow:
            return logits
        less = logits - self._less
        less[follow] = logits[follow]
        return less


def _wanted(said: _Said, call: _Call) -> int | None:
    """The index of the next parameter that the message says something about."""
    for i, parameter in enumerate(call.parameters[call.at :], call.at):
        if parameter.said:
            return i
        if parameter.number and not parameter.choices:
            given = _NUMBER.findall(call.values + " " + call.text)
            if any(number not in given for number in said.numbers):
                return i
    return None


def _name(name: str) -> set[str]:
    """The words of a parameter's name."""
    return {word.lower() for word in _NAME.findall(name)}


def _plain(text: str) -> str:
    """The words of a text, with spaces around them."""
    return " ".join(("", *_WORD.findall(text.lower()), ""))


def _in_word(char: str) -> bool:
    return char.isalnum() or char > "\x7f"  # parts of multi-byte characters are mostly letters
