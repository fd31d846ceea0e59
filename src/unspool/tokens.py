"""Turns token ids into text, one id at a time.

`Detokenizer.push` returns the text that an id completes. Characters whose bytes are spread over several tokens are
held until they are complete, so valid text never shows U+FFFD. Bytes that can no longer become a character are
emitted as U+FFFD as soon as that is certain. Added tokens (special or not) are kept apart from text: their literal is
exact.

There are two methods. If the tokenizer describes how it decodes (byte-level BPE; sentencepiece's ``▁`` and byte
fallback), the bytes of each token are looked up. Any other object with a ``decode`` decodes a short window of ids,
and the text that the newest ids add is theirs. Both do a constant amount of work per id.

The text of all ids together is what the tokenizer's own ``decode`` returns for them, with special tokens, if that is
valid text. Changes that some tokenizers make around added tokens (mostly of spaces) are not made.
"""

import contextlib
import json
import weakref
from codecs import utf_8_decode
from collections.abc import Callable, Mapping
from typing import Any, Final

from .regex import Regex

_BROKEN: Final = "\ufffd"
_MAX_HELD: Final = 4  # how many ids may wait for a character to be complete: each has at least one of its bytes
_NO_SUCH_ID: Final = (IndexError, KeyError, OverflowError, TypeError, ValueError)
"""The errors that tokenizers raise for an unknown id."""


class Detokenizer:
    """Turns one stream of token ids into text.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``, a transformers tokenizer, or any object whose ``decode(ids,
            skip_special_tokens=False)`` returns text. It is examined once; tokens added to it later are not seen.
    """

    __slots__ = ("added", "stream")

    def __init__(self, tokenizer: Any) -> None:
        vocabulary = _vocabulary(tokenizer)
        backend = backend_of(tokenizer)
        self.added: Mapping[int, str] = vocabulary.added
        """The literal text of each added token, by id. Do not change it."""
        self.stream = _Window(vocabulary, backend) if vocabulary.piece is None else _TokenBytes(vocabulary, backend)
        """The stream of ids without added tokens; who knows a step from its ``after`` may take it without `push`."""

    def push(self, token: int) -> tuple[str, str]:
        """Take an id, and return the text that it completes, and its literal if it is an added token (else ``""``).

        Both are returned only if an added token cuts a character: the text, U+FFFD, then comes before the literal.
        Ids that the vocabulary lacks have no text.
        """
        literal = self.added.get(token)
        if literal is None:
            return self.stream.push(token), ""
        text, _ = self.stream.flush()
        self.stream.interrupt()
        return text, literal

    def flush(self) -> tuple[str, bool]:
        """The rest at the end, with U+FFFD for a character that was cut, and whether there was one; else ``""``.

        With a tokenizer that only decodes, a cut character looks like a final U+FFFD that the model wrote; both count
        as cut.
        """
        return self.stream.flush()


def added_tokens(tokenizer: Any) -> dict[str, int]:
    """The literal text of every added or special token of a tokenizer, with its id."""
    return {text: token for token, text in _vocabulary(tokenizer).added.items()}


def token_bytes(tokenizer: Any, token: int) -> bytes | None:
    """Return the bytes of one id after other text, which need not be complete characters; ``None`` if the tokenizer
    only decodes, and this id alone is not text."""
    vocabulary = _vocabulary(tokenizer)
    literal = vocabulary.added.get(token)
    if literal is not None:
        return literal.encode()
    detokenizer = Detokenizer(tokenizer)
    if vocabulary.anchor is not None:
        detokenizer.push(vocabulary.anchor)
    text = detokenizer.push(token)[0]
    piece = vocabulary.pieces.get(token, text)
    if isinstance(piece, bytes):
        return piece
    return piece.encode(errors="replace") if piece or not detokenizer.flush()[1] else None


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the added tokens that ordinary text does not spell, with their ids.

    These are the tokens marked as special, and those written as a tag (``<…>``), as in grammar engines.
    """
    vocabulary = _vocabulary(tokenizer)
    special = ((i, t) for i, t in vocabulary.added.items() if t in vocabulary.marked or (t[0] == "<" and t[-1] == ">"))
    return {text: token for token, text in special}


def marked_special(tokenizer: Any) -> frozenset[str]:
    """The literals of the added tokens that the tokenizer itself marks as special."""
    return _vocabulary(tokenizer).marked


# --- the tokenizer, examined once -------------------------------------------------------------------------------------


class _TokenizerFacts:
    """The facts about a tokenizer, shared by all streams; only the cache of pieces ever changes.

    It does not refer to the tokenizer, which would then never be freed: methods take it as ``backend``.

    Attributes:
        added: the literal of each added token, by id.
        anchor: an id of plain letters, to put before other ids; ``None`` if there is none, or none is needed.
        marked: the literals that the tokenizer marks as special.
        piece: returns an id's text after other text, or bytes that are no text alone; ``None`` if unknown.
        pieces: the cached pieces.
        whole: the state of a stream that ends with a whole character.
        first_differs: whether a piece may read differently at the very start (sentencepiece drops a space there).
    """

    __slots__ = ("_options", "_states", "added", "anchor", "first_differs", "marked", "piece", "pieces", "whole")

    def __init__(self, tokenizer: Any) -> None:
        backend = backend_of(tokenizer)
        self._options = _decode_options(backend)
        self.added, self.marked = _find_added(tokenizer)
        self.anchor: int | None = None
        self.piece: Callable[[Any, int], str | bytes] | None = None
        self.pieces: dict[int, str | bytes] = {}
        self.whole = After(b"")
        self._states = {b"": self.whole}
        self.first_differs = False
        steps = _decoder_steps(backend)
        if "ByteLevel" in steps and steps <= {"ByteLevel", "Fuse"}:
            self.piece = _byte_level_piece
            return
        self.anchor = self._find_anchor(backend)
        if steps and steps <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"} and self.anchor is not None:
            self.piece = self._byte_or_text if "ByteFallback" in steps else self._after_anchor
            self.first_differs = True

    def after(self, held: bytes) -> "After":
        """The state of a stream that ends with the beginning of a character."""
        found = self._states.get(held)
        if found is None:
            found = After(held)
            if len(self._states) < _MOST_STATES:
                self._states[held] = found
        return found

    def decode(self, backend: Any, ids: list[int]) -> str:
        """The tokenizer's own decoding, with special tokens, and without changes of spaces."""
        text: str = backend.decode(ids, **self._options)
        return text

    def _find_anchor(self, backend: Any) -> int | None:
        """An id that decodes to plain letters; if possible several, since one letter may be the token of a byte."""
        letter = None
        for token in range(2_000):
            try:
                text = self.decode(backend, [token])
                plain = token not in self.added and text.isascii() and text.isalpha()
                if not plain or not self.decode(backend, [token, token]).startswith(text):
                    continue
            except _NO_SUCH_ID:
                continue  # ids may have gaps
            if len(text) > 1:
                return token
            letter = token if letter is None else letter
        return letter

    def _byte_or_text(self, backend: Any, token: int) -> str | bytes:
        byte = _BYTE_TOKEN.fullmatch(backend.id_to_token(token) or "")
        return _text_or_bytes(bytes.fromhex(byte[1])) if byte else self._after_anchor(backend, token)

    def _after_anchor(self, backend: Any, token: int) -> str:
        before = [] if self.anchor is None else [self.anchor]
        return self.decode(backend, [*before, token])[len(self.decode(backend, before)) :]


_weak: dict[int, tuple[weakref.ref[Any], _TokenizerFacts]] = {}
_strong: dict[int, tuple[Any, _TokenizerFacts]] = {}
_MAX_STRONG: Final = 8


def _vocabulary(tokenizer: Any) -> _TokenizerFacts:
    """Return the facts about a tokenizer, from the cache if possible.

    The key is the tokenizer's identity, since tokenizers need not be hashable. The eight latest tokenizers that do
    not support weak references are kept alive, so that no other object gets their identity.
    """
    key = id(tokenizer)
    weak = _weak.get(key)
    if weak is not None and weak[0]() is tokenizer:
        return weak[1]
    strong = _strong.get(key)
    if strong is not None:
        return strong[1]
    vocabulary = _TokenizerFacts(tokenizer)
    try:
        _weak[key] = weakref.ref(tokenizer, lambda ref: _forget(key, ref)), vocabulary
    except TypeError:
        _strong[key] = tokenizer, vocabulary
        for old in list(_strong)[:-_MAX_STRONG]:
            _strong.pop(old, None)
    return vocabulary


def _forget(key: int, ref: weakref.ref[Any]) -> None:
    # In the meantime, another tokenizer may have taken the place and the identity.
    weak = _weak.get(key)
    if weak is not None and weak[0] is ref:
        _weak.pop(key, None)


def _find_added(tokenizer: Any) -> tuple[dict[int, str], frozenset[str]]:
    """The added tokens by id, and those that are marked as special."""
    found: dict[int, str] = {}
    marked: set[str] = set(getattr(tokenizer, "all_special_tokens", ()))
    for holder in (getattr(tokenizer, "backend_tokenizer", None), tokenizer):
        listed = getattr(holder, "get_added_tokens_decoder", None) or getattr(holder, "added_tokens_decoder", None)
        by_id = listed() if callable(listed) else listed
        if isinstance(by_id, Mapping):
            found.update((token, getattr(text, "content", None) or str(text)) for token, text in by_id.items())
            marked.update(str(t.content) for t in by_id.values() if getattr(t, "special", False))
        by_text = getattr(holder, "get_added_vocab", None)
        if by_id is None and callable(by_text):
            found.update((token, text) for text, token in by_text().items())
        # Slow tokenizers may contain special tokens in their own vocabulary.
        special = zip(getattr(holder, "all_special_ids", ()), getattr(holder, "all_special_tokens", ()), strict=False)
        for token, text in special:
            found.setdefault(token, str(text))
    return {token: text for token, text in found.items() if text}, frozenset(marked)


def backend_of(tokenizer: Any) -> Any:
    """The object that encodes and decodes: transformers' fast ones wrap one of `tokenizers`."""
    return getattr(tokenizer, "backend_tokenizer", tokenizer)


_SHORT: Final = 1024  # the longest text, in characters, whose encoding delays nobody


def encoded(tokenizer: Any, text: str, *, special: bool = False) -> list[int]:
    """Encode a text; with ``special``, the tokenizer adds its own special tokens, such as the first one.

    `tokenizers` holds the interpreter's lock while it encodes one text, but not while it encodes several.
    """
    backend = backend_of(tokenizer)
    several = getattr(backend, "encode_batch_fast", None)
    if several is not None and len(text) > _SHORT:
        return list(several([text], add_special_tokens=special)[0].ids)
    found = backend.encode(text, add_special_tokens=special)
    return list(getattr(found, "ids", found))


_PART: Final = 256 * 1024  # the longest text, in characters, that is counted in one go


def counted(tokenizer: Any, text: str, check: Callable[[], None] = lambda: None) -> int:
    """Count the tokens of a text: exactly up to 262,144 characters, then as the sum of parts, with ``check`` called
    between them. Encoding cannot be interrupted, and takes a hundred times the memory of the text."""
    total = at = 0
    while at < len(text):
        check()
        end = at + _PART
        if end < len(text):
            middle = at + _PART // 2
            end = text.rfind("\n", middle, end) + 1 or max(text.rfind(" ", middle, end), 0) or end
        total += len(encoded(tokenizer, text[at:end]))
        at = end
    return total


def _decode_options(backend: Any) -> dict[str, bool]:
    options = {"skip_special_tokens": False}
    if hasattr(backend, "all_special_ids"):  # transformers: leave the spaces as they are
        more = {"clean_up_tokenization_spaces": False, "spaces_between_special_tokens": False}
        with contextlib.suppress(TypeError):  # some models have their own tokenizer without such options
            backend.decode([], **options, **more)
            options |= more
    return options


def _decoder_steps(backend: Any) -> frozenset[str]:
    """The types of the steps in which a ``tokenizers.Tokenizer`` decodes; none if it does not say."""
    if not hasattr(backend, "id_to_token"):
        return frozenset()
    try:
        state = json.loads(backend.decoder.__getstate__())
    except Exception:  # a decoder written in Python cannot be serialized, which raises a bare Exception
        return frozenset()
    steps = state.get("decoders", [state]) if isinstance(state, dict) else []
    return frozenset(str(step.get("type")) for step in steps)


def _byte_of_character() -> dict[str, int]:
    """How byte-level BPE spells bytes: printable Latin-1 characters as themselves, the others from U+0100 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in plain)
    return {chr(byte): byte for byte in plain} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


BYTES: Final = _byte_of_character()


_BYTE_TOKEN: Final = Regex("<0x([0-9A-Fa-f]{2})>")  # how sentencepiece spells a byte


def _byte_level_piece(backend: Any, token: int) -> str | bytes:
    spelled: str = backend.id_to_token(token) or ""
    try:
        return _text_or_bytes(bytes(BYTES[character] for character in spelled))
    except KeyError:
        return spelled  # no bytes are spelled: it stands for itself


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


# --- a stream of ids without added tokens -------------------------------------------------------------------------


class After(dict[int, tuple[str, "After"]]):
    """A state of a stream: maps ids to the text that each completes, and to the state after it. It remembers the ids
    that came."""

    __slots__ = ("held",)

    def __init__(self, held: bytes) -> None:
        self.held = held  # the beginning of a character, with which the stream ends

    def __reduce__(self) -> tuple[type["After"], tuple[bytes]]:
        return After, (self.held,)

    def __deepcopy__(self, memo: object) -> "After":
        return self


_MOST_STATES: Final = 1024
_MOST_STEPS: Final = 128  # from a state that is not whole


class _TokenBytes:
    """Looks up the bytes of each id."""

    __slots__ = ("_backend", "_start", "_vocabulary", "after")

    def __init__(self, vocabulary: _TokenizerFacts, backend: Any) -> None:
        self._backend = backend
        self._vocabulary = vocabulary
        self._start = vocabulary.first_differs  # nothing came yet, and what comes may read differently
        self.after = After(b"") if self._start else vocabulary.whole

    def push(self, token: int) -> str:
        step = self.after.get(token)
        text, self.after = self._step(token) if step is None else step
        return text

    def _step(self, token: int) -> tuple[str, After]:
        vocabulary, after = self._vocabulary, self.after
        piece = self._look_up(token)
        if not piece:
            return "", after
        first, self._start = self._start, False
        if first and isinstance(piece, str):
            return vocabulary.decode(self._backend, [token]), vocabulary.whole
        held, text = b"", piece
        if after.held or not isinstance(text, str):
            held = after.held + (piece.encode("utf-8", "replace") if isinstance(piece, str) else piece)
            text, used = utf_8_decode(held, "replace", False)
            held = held[used:]
        step = text, vocabulary.after(held)
        if after is vocabulary.whole or (not first and len(after) < _MOST_STEPS):  # copies may be at the first one too
            after[token] = step
        return step

    def _look_up(self, token: int) -> str | bytes:
        vocabulary = self._vocabulary
        piece = vocabulary.pieces.get(token)
        if piece is None:
            try:
                piece = vocabulary.piece(self._backend, token) if vocabulary.piece else ""
            except _NO_SUCH_ID:
                return ""
            if piece:  # unknown ids are not cached: there is no limit to them
                vocabulary.pieces[token] = piece
        return piece

    def flush(self) -> tuple[str, bool]:
        held = self.after.held
        if held:
            self.after = self._vocabulary.whole
        return held.decode(errors="replace"), bool(held)

    def interrupt(self) -> None:
        self._start = False
        self.after = self._vocabulary.whole


class _Window:
    """Lets the tokenizer decode what ids add to the text of a few ids before them.

    ``_context`` are the latest ids whose text is complete. ``_pending`` are the ids after them, whose text ends in
    U+FFFD and may still become a character. ``_before`` is the part of the text of both that was already emitted. A
    character has at most four bytes: after four ids without a new character, the first of them cannot be part of one.
    """

    __slots__ = ("_backend", "_before", "_context", "_pending", "_stand_in", "_vocabulary", "after")

    def __init__(self, vocabulary: _TokenizerFacts, backend: Any) -> None:
        self._backend = backend
        self._vocabulary = vocabulary
        self._stand_in = [] if vocabulary.anchor is None else [vocabulary.anchor]
        self.after = After(b"")  # empty: the text of an id depends on the ids before it
        self._context: list[int] = []
        self._before = ""
        self._pending: list[int] = []

    def push(self, token: int) -> str:
        self._pending.append(token)
        try:
            text = self._added()
        except _NO_SUCH_ID:
            self._pending.pop()
            return ""
        whole = text.rstrip(_BROKEN)
        if whole == text:
            self._settle(text)
        elif whole:
            # The incomplete character begins in this very id; the ids before it are finished.
            self._look_after(self._stand_in)
            self._pending = [token]
            self._before += self._added()[: len(whole) - len(text)]
        elif len(self._pending) > _MAX_HELD:
            return self._release()
        return whole

    def flush(self) -> tuple[str, bool]:
        if not self._pending:
            return "", False
        text = self._added()
        self._pending = []
        self._look_after(self._stand_in)
        return text, True

    def interrupt(self) -> None:
        # The next id is no longer the first, but some tokenizers add or drop spaces beside added tokens.
        if not self._before:
            self._look_after(self._stand_in)

    def _added(self) -> str:
        """The text that the pending ids add."""
        text = self._decode(self._context + self._pending)
        if not text.startswith(self._before):
            # For one wrong byte, a tokenizer may give up a whole run, including bytes of the context.
            self._look_after(self._stand_in)
            text = self._decode(self._context + self._pending)
        return text[len(self._before) :]

    def _settle(self, text: str) -> None:
        """The pending ids are decoded as ``text``, and become the context of the next ids."""
        if text and not text.isspace():
            self._look_after(self._pending)
        elif not self._before or self._before.isspace():
            # Only white space so far: it may still matter that these ids came first.
            at_start = len(self._context) < _MAX_HELD
            self._look_after(self._context + self._pending if at_start else self._stand_in)
        # Otherwise the context stays: some tokenizers drop white space at the beginning of what they decode.
        self._pending = []

    def _release(self) -> str:
        """Give up the first pending ids, which can no longer belong to a character; the rest may then be complete.

        Bytes that are split between two characters decode to the fewest U+FFFD, so that decides where to split.
        """
        if self._context != self._stand_in:
            self._look_after(self._stand_in)
        ids = self._pending
        lengths = [
            len(self._decode(self._stand_in + ids[:count])) + len(self._decode(self._stand_in + ids[count:]))
            for count in range(1, len(ids))
        ]
        count = lengths.index(min(lengths)) + 1
        text = self._decode(self._stand_in + ids[:count])[len(self._before) :]
        self._look_after(self._stand_in)
        self._pending = []
        return text + "".join(self.push(token) for token in ids[count:])

    def _look_after(self, context: list[int]) -> None:
        self._context = context
        self._before = self._decode(context)

    def _decode(self, ids: list[int]) -> str:
        return self._vocabulary.decode(self._backend, ids)
