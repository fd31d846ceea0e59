"""A small common interface to grammar engines: which tokens may come next, and which token came."""

from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import ConstraintError
from ..tokens import backend_of
from .constraint import Constraint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Tokens that most text may contain anywhere, which llguidance handles together. They exclude the characters with which
# strings and markers of any dialect begin or end, so these sets serve the masks of all dialects.
_WORDS: Final = r"[^<\[{(`\]\"'\\\x00-\x1F\x7F]"

LIMITS: Final[dict[str, Any]] = {
    "max_lexer_states": 50_000,
    "initial_lexer_fuel": 5_000_000,
    "step_lexer_fuel": 5_000_000,
    "verbose_errors": False,
}
"""The limits of a matcher, by llguidance's names. Each state takes about two kilobytes, a million of fuel about 50 ms
of processor time. Text that is taken without a mask uses the initial fuel. Errors do not repeat the output."""

_SLICES: Final = [r"[\x20\x0A\x0D\x09]+", *(_WORDS + count for count in ("{1,10}", "{1,30}", "+"))]


class Matcher(Protocol):
    """The state of one output under a constraint."""

    def mask(self) -> "NDArray[np.bool_]":
        """Whether each token id of the vocabulary, including the end of the sequence, may come next."""

    def accept(self, token: int) -> bool:
        """Take the next token. Returns false if it is not allowed; then the matcher must no longer be used."""

    def is_done(self) -> bool:
        """Whether the output has ended, or only its end may come."""


class Llguidance:
    """Makes matchers from a constraint's Lark grammar with llguidance (the extra ``constrain``).

    Args:
        tokenizer: a `tokenizers.Tokenizer`, or a fast tokenizer of transformers. Reading it takes up to a second.
        eos: the ids that end a sequence; by default those that llguidance finds in the tokenizer.
        vocab_size: the width of the model's logits, if it differs from the tokenizer's.
    """

    def __init__(self, tokenizer: Any, *, eos: "int | list[int] | None" = None, vocab_size: int | None = None) -> None:
        import llguidance

        described = backend_of(tokenizer).to_str()
        self._tokenizer = llguidance.LLTokenizer(described, n_vocab=vocab_size, eos_token=eos, slices=_SLICES)
        self.vocab_size: int = self._tokenizer.vocab_size

    def matcher(self, constraint: Constraint) -> "Matcher":
        """A matcher at the beginning of an output.

        Raises:
            ConstraintError: llguidance cannot enforce a schema; the message is llguidance's.
        """
        matcher = from_lark(self._tokenizer, constraint.lark)
        if matcher.is_error():
            raise ConstraintError(f"llguidance: {matcher.get_error()}")
        return _LlguidanceMatcher(matcher, self.vocab_size)


def from_lark(tokenizer: Any, lark: str) -> Any:
    """A matcher of llguidance. Its ``is_error`` says whether it failed.

    Text that may contain unmarked calls anywhere (a union of formats) takes more work in one step than the library
    allows by default. All later steps use the result of that work.
    """
    import llguidance

    limits = llguidance.LLParserLimits(**LIMITS)
    return llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0, limits=limits)


def _unpacked(bits: "NDArray[np.int32]", size: int) -> "NDArray[np.bool_]":
    import numpy as np

    return np.unpackbits(bits.view("uint8"), count=size, bitorder="little").view("bool")


class _LlguidanceMatcher:
    def __init__(self, matcher: Any, vocab_size: int) -> None:
        import numpy as np

        self._matcher = matcher
        self._size = vocab_size
        self._bits = np.zeros((vocab_size + 31) // 32, dtype=np.int32)

    def mask(self) -> "NDArray[np.bool_]":
        bits = self._bits
        self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        if self._matcher.is_error():
            raise ConstraintError(f"llguidance: {self._matcher.get_error()}")
        return _unpacked(bits, self._size)

    def accept(self, token: int) -> bool:
        return bool(self._matcher.consume_token(token))

    def is_done(self) -> bool:
        return bool(self._matcher.is_stopped())


class Xgrammar:
    """Makes matchers from a constraint's structural tag with xgrammar, which is not an extra because it needs torch.

    Args:
        tokenizer: a fast tokenizer of transformers.
        eos: the ids that end a sequence; by default the tokenizer's own.
        vocab_size: the width of the model's logits, if it differs from the tokenizer's.
    """

    def __init__(self, tokenizer: Any, *, eos: "int | list[int] | None" = None, vocab_size: int | None = None) -> None:
        import xgrammar

        stops = [eos] if isinstance(eos, int) else eos
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size, stop_token_ids=stops)
        self._library = xgrammar
        self._compiler = xgrammar.GrammarCompiler(info)
        self.vocab_size: int = info.vocab_size

    def matcher(self, constraint: Constraint) -> "Matcher":
        """A matcher at the beginning of an output.

        Raises:
            ConstraintError: xgrammar cannot enforce a schema; the message is xgrammar's.
        """
        try:
            compiled = self._compiler.compile_structural_tag(constraint.structural_tag)
        except RuntimeError as error:
            raise ConstraintError(f"xgrammar: {error}") from None
        return _XgrammarMatcher(self._library, self._library.GrammarMatcher(compiled), self.vocab_size)


class _XgrammarMatcher:
    def __init__(self, library: Any, matcher: Any, vocab_size: int) -> None:
        self._matcher = matcher
        self._size = vocab_size
        self._bits = library.allocate_token_bitmask(1, vocab_size)

    def mask(self) -> "NDArray[np.bool_]":
        self._matcher.fill_next_token_bitmask(self._bits)
        return _unpacked(self._bits.numpy()[0], self._size)

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    def is_done(self) -> bool:
        return bool(self._matcher.is_terminated())
