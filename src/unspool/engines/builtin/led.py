"""Leads the builtin model to the answer that `reader` reads from a request with clear words.

A model this small misreads requests that a list of words and a few rules read well. The reader's answer becomes the
likeliest output, token by token. Once another token is taken, because of a grammar or a temperature, the model
continues by itself.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..model import Model
from .around import Around
from .bounds import MOST
from .model import FOLDER
from .reader import Answer, Prompt, Reading, arguments, read, valued

MORE: Final = np.float32(500)
"""The bonus on the logit of the next token of the reader's answer."""
_KEY: Final = re.compile(r'[{,]\s*"(\w{1,40})"\s*:\s*("?)$')
_MORE: Final = " and more."
"""The end of words that would be too many."""
_TAIL: Final = 64
"""The number of characters before a value in which its key is looked for."""


class _State:
    """A sequence: the model's state, the prompt, and the next tokens of the reader's answer.

    Attributes:
        name: the tokens of the name of a call that the reader did not expect; ``None`` outside a name.
        words: the last characters of JSON that a schema demands instead of words; ``None`` without such JSON.
        valued: returns the texts for keys of this JSON.
    """

    __slots__ = ("ahead", "inner", "name", "prompt", "valued", "words")

    def __init__(self, inner: Any, prompt: Prompt, ahead: list[int]) -> None:
        self.inner = inner
        self.prompt = prompt
        self.ahead = ahead
        self.name: list[int] | None = None
        self.words: str | None = None
        self.valued: Callable[[str], str | None] | None = None


class Led(Around[_State]):
    """A model that is led to the reader's answer.

    Args:
        model: the inner model.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._marks: dict[str, str] = json.loads((FOLDER / "parts.json").read_text(encoding="utf-8"))["marks"]
        self._reading = Reading(self.tokenizer, FOLDER)
        token = self.tokenizer.token_to_id
        self._begins_call, self._begins_arguments = token(self._marks["call"]), token(self._marks["arguments"])
        self._marked = {token(mark) for mark in self._marks.values()}
        self._begins_words = {token(self._marks["thought"])}

    def _begun(self, inner: Any, tokens: Sequence[int]) -> _State:
        prompt = self._reading.read(tokens)
        answer = read(prompt)
        state = _State(inner, prompt, [] if answer is None else self._written(answer, prompt))
        state.words = "" if tokens and tokens[-1] in self._begins_words else None
        return state

    def _behind_prompt(self, state: _State, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._led(state, logits)

    def _next(self, state: _State, token: int, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        self._take(state, token)
        return self._led(state, logits)

    def _take(self, state: _State, token: int) -> None:
        if state.ahead and state.ahead[0] == token:
            del state.ahead[0]
            self._follow(state, token)
            return
        state.ahead = []
        self._follow(state, token)
        if token == self._begins_call:
            state.name = []
        elif token == self._begins_arguments and state.name is not None:
            given = arguments(state.prompt, self.tokenizer.decode(state.name))
            state.name = None
            if given is not None:
                state.ahead = self._ids(json.dumps(given, ensure_ascii=False))
        elif state.name is not None:
            state.name.append(token)

    def _follow(self, state: _State, token: int) -> None:
        """Follow JSON in place of words. After a key, the reader's text for it leads on."""
        text: str = self.tokenizer.decode([token])
        if token in self._marked:
            state.words = "" if token in self._begins_words else None
            return
        if state.words is None or (not state.words and not text.lstrip().startswith("{")):
            state.words = None
            return
        if not state.words:
            state.valued = valued(state.prompt)
        state.words = (state.words + text)[-_TAIL:]
        key = _KEY.search(state.words)
        if key and state.valued and not state.ahead and (said := state.valued(key[1])) is not None:
            written = json.dumps(said, ensure_ascii=False)
            state.ahead = self._ids(written[1:] if key[2] else f" {written}")

    def _led(self, state: _State, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        if state.ahead:
            logits = logits.copy()
            logits[state.ahead[0]] += MORE
        return logits

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _written(self, answer: Answer, prompt: Prompt) -> list[int]:
        """An answer as the model's tokens: reasoning, then calls or words, then the end."""
        marks = self._marks
        thought = f"{answer.thought}{marks['thought']}" if prompt.thinking else ""
        if not answer.calls:
            words = answer.words
            while len(self._ids(words)) > MOST["words"] and " " in words:
                words = (
                    f"{words[: -len(_MORE)] if words.endswith(_MORE) else words}".rpartition(" ")[0].rstrip(",;")
                    + _MORE
                )
            return [*self._ids(thought + words), min(self.eos)]
        begin, *calls, over = marks["calls"], *map(self._call_of, answer.calls), marks["over"]
        while len(calls) > 1 and len(self._ids("".join(calls))) >= MOST["calls"]:
            calls.pop()  # otherwise `Bounded` would cut them anywhere
        return [*self._ids("".join((thought, begin, *calls, over))), min(self.eos)]

    def _call_of(self, call: tuple[str, dict[str, Any]]) -> str:
        name, given = call
        marks = self._marks
        return f"{marks['call']}{name}{marks['arguments']}{json.dumps(given, ensure_ascii=False)}{marks['end']}"
