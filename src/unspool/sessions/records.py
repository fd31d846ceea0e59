"""What sessions keep: `About`, what they are, `Recorded`, their calls, `Remembered`, their answers of several rounds.
`Node` is a call in its tree."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, Protocol

import msgspec

from ..engines import Engine
from ..request.continuation import Rounds
from ..request.prompts import Prompts
from ..request.settings import Settings
from ..store import NoRecord, WriteTransaction


class Recorded(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call as it is stored; see `unspool.rl.rollouts.Call`. Tokens are 32-bit, log-probabilities 64-bit numbers."""

    id: str
    parent: str = ""
    fork: str = ""
    follows: bool = False  # whether the prompt begins with the parent's prompt and output
    answer: str = ""  # the id of the answer that the agent got
    edges: list[tuple[str, str]] = []
    # attempt, again: see `Attempt`.
    attempt: bytes = b""
    again: bool = False
    # prompt_text, prompt_ids: what the prompt adds to them, or all of it.
    prompt_text: str = ""
    prompt_ids: bytes = b""
    results: list[tuple[int, int]] = []  # the ranges of that text that tools wrote
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
    # digests, asked: what identifies the answer in a history, and the prompt.
    digests: list[bytes] = []
    asked: bytes = b""
    # shared, thoughts: how many digests of earlier answers' reasoning are the parent's, and those after them.
    shared: int = 0
    thoughts: list[bytes] = []
    # named, reasoned: what identifies the answer by the ids of its calls, and its reasoning: the range of the text with
    # it, or itself if the text has it in several pieces.
    named: bytes = b""
    reasoned: tuple[int, int] | str = ""
    # tools, variables, grammar: digests of the tools, of the template's variables and of the grammar, which the session
    # keeps once; empty if there are none.
    tools: bytes = b""
    tool_count: int = 0
    tool_choice: Any = "auto"
    variables: bytes = b""
    grammar: bytes = b""
    system: bytes = b""  # a digest of the system prompt
    started: float = 0.0
    seconds: float = 0.0


class Model(Protocol):
    @property
    def settings(self) -> Settings: ...

    @property
    def prompts(self) -> Prompts | None: ...

    @property
    def engine(self) -> Engine: ...


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How many generations, tokens of all outputs together, and seconds a session may use; ``None`` means any number.
    The last output is cut."""

    calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None


class About(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is stored of a session besides its calls.

    Attributes:
        secret: for the digests by which calls are found.
        created: the time, in seconds since 1970.
        sampling: replaces what requests say, by the names of `unspool.engines.Sampling`, and ``max_tokens``.
        status: ``open``; ``finishing`` as long as its end waits for requests in flight; ``finished``.
        problems: what went wrong in recording, and what the engines did not report.
    """

    id: str
    key: str
    secret: bytes
    created: float
    sampling: dict[str, Any] = {}
    limits: SessionLimits = SessionLimits()
    metadata: dict[str, Any] = {}
    status: str = "open"
    reward: float | None = None
    problems: list[str] = []


def packed(ids: Sequence[int]) -> bytes:
    """Tokens as 32-bit numbers."""
    return array("I", ids).tobytes()


def ids_of(data: bytes) -> "array[int]":
    """The tokens of `packed`."""
    found = array("I")
    found.frombytes(data)
    return found


class Node:
    """A call in its tree, below the call whose prompt and output begin its own prompt, if there is one."""

    __slots__ = ("characters", "length", "parent", "record")

    # length, characters: how many tokens and characters its prompt and output have together.
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

    @property
    def thoughts(self) -> tuple[bytes, ...]:
        """Digests of the reasoning of each answer up to this one."""
        parts = [self.record.thoughts]
        for node, above in pairwise((self, *self._above())):
            if not node.record.shared:
                break
            parts.append(above.record.thoughts)
        return tuple(chain.from_iterable(reversed(parts)))

    def _above(self) -> "Iterator[Node]":
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


# -- in the store ------------------------------------------------------------------------------------------------------

OWNER: Final = b"unspool sessions"
SESSION: Final = "session"
CALL: Final = "session_call"
BLOB: Final = "session_blob"
ROUNDS: Final = "session_rounds"


class StoredCall(msgspec.Struct):
    """A call in the store, with the model's name."""

    model: str
    call: Recorded


class Remembered(msgspec.Struct):
    """An answer of several rounds in the store, with the model's name, by its keys; see `Rounds`."""

    model: str
    keys: list[bytes]
    rounds: Rounds


def put_about(writing: WriteTransaction, about: About) -> None:
    """Store a session again, which may be dropped once it is finished; `NoRecord` if it was."""
    if writing.get(OWNER, SESSION, about.id) is None:
        raise NoRecord(f"the session {about.id} is no longer stored: it made room for others, or was too old")
    writing.put(OWNER, SESSION, about.id, msgspec.msgpack.encode(about))
    writing.pin(OWNER, SESSION, about.id, about.status != "finished")


def put_call(writing: WriteTransaction, id: str, model: str, record: Recorded, blobs: Mapping[bytes, bytes]) -> None:
    """Store a call of a session, and what it refers to; `NoRecord` if its parent is not stored."""
    if record.parent and writing.get(OWNER, CALL, record.parent) is None:
        raise NoRecord(f"the call {record.parent} is not stored")
    above = (SESSION, id)
    for digest, blob in blobs.items():
        writing.put(OWNER, BLOB, f"{id}/{digest.hex()}", blob, parent=above)
    writing.put(OWNER, CALL, record.id, msgspec.msgpack.encode(StoredCall(model, record)), parent=above)


def put_rounds(writing: WriteTransaction, id: str, found: Remembered) -> None:
    """Store an answer of several rounds of a session."""
    writing.put(OWNER, ROUNDS, f"{id}/{found.keys[0].hex()}", msgspec.msgpack.encode(found), parent=(SESSION, id))
