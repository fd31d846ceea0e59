"""The kinds of a recorded call's tokens, found when they are asked for: nothing of it delays an answer."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..dialect.file import Dialect
from ..engines.local.judge import read_tokenizer
from ..engines.token_kinds import PROMPT, RESULTS, Codes, codes_of
from ..errors import ConstraintError
from ..grammar.matchers import from_lark
from ..parser import Parser
from ..parser.prompt import last_turn
from ..policy import Policy
from ..rl.rollouts import CONSTRAINED
from ..tokens import Detokenizer, backend_of

__all__ = ["Grammar", "output_codes", "prompt_codes"]

_WORD: Final = 32


def prompt_codes(text: str, ids: Sequence[int], results: Sequence[tuple[int, int]], tokenizer: Any) -> Codes:
    """The kinds of a prompt's tokens: ``results`` for what tools wrote.

    Args:
        text: the prompt.
        ids: its tokens.
        results: the ranges of the text that tools wrote, in order.
        tokenizer: the tokenizer.
    """
    codes = np.full(len(ids), PROMPT, np.uint8)
    if not results or tokenizer is None:
        return codes
    detokenizer = Detokenizer(tokenizer)
    starts, parts, at = [], [], 0
    for id in ids:
        starts.append(at)
        part = "".join(detokenizer.push(id))
        parts.append(part)
        at += len(part)
    whole, places, at = "".join(parts), np.array(starts), 0
    for start, end in results:  # the tokenizer may normalise the text, so it is looked for again
        found = whole.find(text[start:end], at)
        if found >= 0:
            at = found + end - start
            codes[(places >= found) & (places < at)] = RESULTS
    return codes


def output_codes(
    ids: Sequence[int],
    finish_reason: str,
    *,
    dialect: Dialect,
    tools: Sequence[Any] | None,
    tool_choice: Any,
    prompt: str,
    policy: Policy,
    tokenizer: Any,
) -> Codes:
    """The kinds of an output's tokens; see `unspool.Parser` for the arguments."""
    parser = Parser(
        dialect,
        tools=tools,
        tool_choice=tool_choice,
        prompt=last_turn(dialect, prompt),
        policy=policy,
        tokenizer=tokenizer,
    )
    events = parser.feed_tokens(ids)
    return codes_of(events + parser.close(finish_reason), len(ids))


class Grammar:
    """Finds the tokens that a grammar forced, since it allowed no other.

    Args:
        tokenizer: the tokenizer of the output.
    """

    def __init__(self, tokenizer: Any) -> None:
        import llguidance

        if hasattr(tokenizer, "described"):
            self._tokenizer = read_tokenizer(llguidance, tokenizer.described)
        else:
            self._tokenizer = llguidance.LLTokenizer(backend_of(tokenizer).to_str())

    def mark(self, codes: Codes, ids: Sequence[int], lark: str) -> None:
        """Mark forced tokens as ``constrained``.

        Args:
            codes: the kinds of the tokens, which are changed.
            ids: the tokens.
            lark: the grammar; see `Constraint.lark`.

        Raises:
            ConstraintError: the grammar cannot be compiled.
        """
        matcher = from_lark(self._tokenizer, lark)
        bits = np.zeros((self._tokenizer.vocab_size + _WORD - 1) // _WORD, np.uint32)
        for at, token in enumerate(ids):
            if matcher.is_stopped():
                return
            matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
            if matcher.is_error():
                raise ConstraintError(f"llguidance: {matcher.get_error()}")
            word = int(bits[token // _WORD]) if token // _WORD < len(bits) else 0
            alone = word == 1 << token % _WORD and np.count_nonzero(bits) == 1
            if not word >> token % _WORD & 1:
                return  # an end that the grammar does not know
            if alone:
                codes[at] = CONSTRAINED
            if not matcher.consume_token(token):
                return
