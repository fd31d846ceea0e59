"""What a conversation gives: tokens with the kind of each, places of calls, and what its template would change."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..engines.token_kinds import SAMPLED, Codes, mask_of, names_of
from ..events import Status
from .encoding import Ids


class CallSpan(msgspec.Struct, frozen=True):
    """One call, and its position.

    Attributes:
        turn: the index of its answer in the conversation, from 0.
        index: its index among the answer's calls, from 0.
        name: the tool's name.
        status: the status, as in `unspool.ToolCall`.
        known: whether the tool is declared; ``None`` if the tools are unknown.
        attempt: 1, or, if the previous call of the same tool failed (its status was neither ``ok`` nor ``repaired``),
            one more than the attempt of that call.
        start, end: the half-open range of its tokens in the sample's ids.
    """

    turn: int
    index: int
    name: str
    status: Status
    known: bool | None
    attempt: int
    start: int
    end: int


class Rewrite(NamedTuple):
    """The template would write the conversation differently.

    Attributes:
        turn: the answer after which the difference was found.
        what: the part that differs: the ``earlier`` text, the ``answer``, or the text after it (``behind``).
        forked: whether a new sample began.
    """

    turn: int
    what: Literal["earlier", "answer", "behind"]
    forked: bool


class Sample(NamedTuple):
    """Aligned arrays of one sequence of tokens; those of a conversation cannot be written to.

    Attributes:
        ids: the tokens.
        codes: the kind of each token, an index into `unspool.rl.KINDS`.
        logprobs: the given log-probabilities; NaN for tokens that were not sampled, or have none.
        calls: the calls of the answers in it.
    """

    ids: Ids
    codes: Codes
    logprobs: NDArray[np.float64]
    calls: tuple[CallSpan, ...]

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each token by name."""
        return names_of(self.codes)

    def mask(self, kinds: Iterable[str] = SAMPLED) -> NDArray[np.bool_]:
        """A mask of the tokens that the model wrote and that have one of these kinds.

        Raises:
            ValueError: a kind is not one of `unspool.rl.SAMPLED`.
        """
        return mask_of(self.codes, kinds)


class Transcript(NamedTuple):
    """A written conversation for training: the ids, and which of them to learn."""

    ids: Ids
    mask: NDArray[np.bool_]
