"""`Recorded`, a call as a session keeps it, and `Node`, its place in the session's tree."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

__all__ = ["Node", "Recorded", "ids_of", "packed"]


class Recorded(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call as it is stored; see `unspool.rl.rollouts.Call`. Tokens are 32-bit, log-probabilities 64-bit numbers.

    Attributes:
        follows: whether the prompt begins with the parent's prompt and output.
        prompt_text, prompt_ids: what the prompt adds to them, or all of it.
        results: the ranges of that text that tools wrote.
        output_text: the raw output.
        digests: what identifies the answer in a history.
        asked: what identifies the prompt in a history.
        thoughts: digests of each answer's reasoning up to this one.
        tools, grammar: digests of the declared tools and of the grammar, which the session keeps once; empty if there
            are none.
        tool_choice: the choice of tools.
        system, variables: digests of the system prompt, and of the template's variables.
    """

    id: str
    parent: str = ""
    fork: str = ""
    follows: bool = False
    prompt_text: str = ""
    prompt_ids: bytes = b""
    results: list[tuple[int, int]] = []
    output_text: str = ""
    output_ids: bytes = b""
    logprobs: bytes = b""
    logprobs_kind: str = ""
    finish_reason: str = ""
    stop: str | None = None
    sampling: dict[str, Any] = {}
    requested: dict[str, Any] = {}
    versions: list[tuple[str, int, int]] = []
    experts: str = ""
    problems: list[str] = []
    calls: list[tuple[str, str]] = []
    digests: list[bytes] = []
    asked: bytes = b""
    thoughts: list[bytes] = []
    tools: bytes = b""
    tool_count: int = 0
    tool_choice: Any = "auto"
    grammar: bytes = b""
    system: bytes = b""
    variables: bytes = b""
    started: float = 0.0
    seconds: float = 0.0


def packed(ids: Sequence[int]) -> bytes:
    """Tokens as 32-bit numbers."""
    return array("I", ids).tobytes()


def ids_of(data: bytes) -> "array[int]":
    """The tokens of `packed`."""
    found = array("I")
    found.frombytes(data)
    return found


class Node:
    """A call in its tree.

    Args:
        record: the call.
        parent: the node whose prompt and output its prompt begins with; ``None`` if there is none.

    Attributes:
        length, characters: how many tokens and characters its prompt and output have together.
    """

    __slots__ = ("characters", "length", "parent", "record")

    length: int
    characters: int

    def __init__(self, record: Recorded, parent: "Node | None") -> None:
        self.record = record
        self.parent = parent
        length, characters = (0, 0) if parent is None else (parent.length, parent.characters)
        self.length = length + (len(record.prompt_ids) + len(record.output_ids)) // 4
        self.characters = characters + len(record.prompt_text) + len(record.output_text)

    @property
    def prompt(self) -> str:
        """The text of the whole prompt."""
        parts = [node.record.prompt_text + node.record.output_text for node in self._above()]
        return "".join(reversed(parts)) + self.record.prompt_text

    @property
    def prompt_ids(self) -> "array[int]":
        """The tokens of the whole prompt."""
        parts = [node.record.prompt_ids + node.record.output_ids for node in self._above()]
        return ids_of(b"".join(reversed(parts)) + self.record.prompt_ids)

    def _above(self) -> "Iterator[Node]":
        node = self.parent
        while node is not None:
            yield node
            node = node.parent
