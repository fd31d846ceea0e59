"""The kinds of a recorded call's tokens, computed on demand, so that they delay no answer."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from ..engines.local.judge import LongestPieces, read_tokenizer
from ..engines.token_kinds import PROMPT, RESULTS, Codes, codes_of
from ..errors import ConstraintError
from ..grammar.matchers import from_lark
from ..parser import Parser
from ..parser.prompt import last_turn
from ..rl.rollouts import CONSTRAINED
from ..tokens import Detokenizer, backend_of
from .records import Model, Node, Recorded, ids_of

_WORD: Final = 32


class TokenKinds:
    """Finds the kinds of the tokens of a model's calls; ``blobs`` are the session's tools and grammars, by their
    digests."""

    def __init__(self, model: Model, blobs: Mapping[bytes, bytes]) -> None:
        self._settings = model.settings
        self._tokenizer = model.engine.tokenizer
        self._blobs = blobs

    def of_prompt(self, record: Recorded) -> Codes:
        """The kinds of the tokens that a prompt adds: ``results`` for what tools wrote."""
        ids = ids_of(record.prompt_ids)
        codes = np.full(len(ids), PROMPT, np.uint8)
        if not record.results or self._tokenizer is None:
            return codes
        detokenizer = Detokenizer(self._tokenizer)
        starts, parts, at = [], [], 0
        for id in ids:
            starts.append(at)
            part = "".join(detokenizer.push(id))
            parts.append(part)
            at += len(part)
        whole, places, at = "".join(parts), np.array(starts), 0
        for start, end in record.results:  # the tokenizer may normalise the text, so it is looked for again
            found = whole.find(record.prompt_text[start:end], at)
            if found >= 0:
                at = found + end - start
                codes[(places >= found) & (places < at)] = RESULTS
        return codes

    def of_output(self, node: Node, problems: list[str]) -> Codes:
        """The kinds of an output's tokens; ``problems`` gets what nobody knows about them."""
        record, settings = node.record, self._settings
        ids = ids_of(record.output_ids)
        if self._tokenizer is None or not ids:
            return np.zeros(len(ids), np.uint8)
        tools: Any = msgspec.json.decode(self._blobs[record.tools]) if record.tools else settings.tools
        parser = Parser(
            settings.dialect,
            tools=tools,
            tool_choice=record.tool_choice if record.tools else settings.tool_choice,
            prompt=last_turn(settings.dialect, node.prompt),
            policy=settings.policy,
            tokenizer=self._tokenizer,
        )
        events = parser.feed_tokens(ids)
        reason = "stop" if record.finish_reason in ("abort", "error") else record.finish_reason
        codes = codes_of(events + parser.close(reason), len(ids))
        if record.grammar:
            try:
                self._mark(codes, ids, self._blobs[record.grammar].decode())
            except (ImportError, ConstraintError) as error:
                problems.append(f"nobody knows which tokens the grammar forced: {error}")
        return codes

    @cached_property
    def _vocabulary(self) -> Any:
        """The tokenizer as llguidance knows it."""
        import llguidance

        if hasattr(self._tokenizer, "described"):
            return read_tokenizer(llguidance, LongestPieces(self._tokenizer.described))
        return llguidance.LLTokenizer(backend_of(self._tokenizer).to_str())

    def _mark(self, codes: Codes, ids: Sequence[int], lark: str) -> None:
        """Mark the tokens that a grammar forced, since it allowed no other, as ``constrained``."""
        matcher = from_lark(self._vocabulary, lark)
        bits = np.zeros((self._vocabulary.vocab_size + _WORD - 1) // _WORD, np.uint32)
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
