"""`Chain`: a digest of a conversation up to a message. It is the same for all forms in which clients send it back.

Protocols divide an answer into messages differently: one gives each call its own message, another puts the text and
all calls into one. So all text between two user messages counts as one text, and calls and results count regardless of
their order and messages. Reasoning does not count, because clients omit it. Ids only connect results with calls.
"""

import hmac
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ..engines.media import is_medium
from .common import UNTOLD

_APART: Final = ("role", "content", "tool_calls", "reasoning_content", "tool_call_id")
_MODULUS: Final = 1 << 256


class _ChainText(NamedTuple):
    """A text in pieces, without the white space around it: the hash of the whole text (``None`` before its first word;
    never changed in place, since other texts continue from it), and the digest up to its last word."""

    whole: Any = None
    digest: bytes = b""

    def take(self, piece: str) -> "_ChainText":
        """Return the text with one more piece."""
        if self.whole is None:
            piece = piece.lstrip()
        if not piece:
            return self
        whole, word = sha256() if self.whole is None else self.whole.copy(), piece.rstrip()
        whole.update(_utf8(word))
        digest = whole.digest() if word else self.digest
        whole.update(_utf8(piece[len(word) :]))
        return _ChainText(whole, digest)


_NO_TEXT: Final = _ChainText()


class Chain(NamedTuple):
    """A conversation up to a message."""

    secret: bytes  # the secret for digests
    calls: dict[Any, bytes]  # names and arguments by id, shared by all chains of one conversation
    before: bytes  # the digest of everything before the current answer
    text: "_ChainText" = _NO_TEXT  # the text of the current answer
    open: int = 0  # the sum of the digests of the current answer's calls and results

    def digest(self, use: bytes) -> bytes:
        """The digest of everything so far, for one purpose."""
        return self._digest(use, self.before, self.text.digest, self.open.to_bytes(32))

    def apart(self) -> "Chain":
        """A copy with its own calls, for several conversations that continue from here."""
        return self._replace(calls=dict(self.calls))

    def take(self, message: Mapping[str, Any]) -> "Chain":
        """Return the chain with one more message."""
        untold = message.get(UNTOLD, ())
        if untold is True:
            return self
        role, text = message["role"], _text(message.get("content"))
        if role != "assistant":
            rest = {key: value for key, value in message.items() if key not in _APART and value}
            text = text.strip()
            return self._result(message, rest, text) if role == "tool" else self._asked([role, rest, text])
        chain = self._replace(text=self.text.take(text)) if text else self
        for call in message.get("tool_calls") or ():
            if call.get("id") in untold:
                continue
            digest = chain._digest(b"call", called(call))
            chain.calls[call.get("id")] = digest
            chain = chain._with(digest)
        return chain

    def _asked(self, value: Any) -> "Chain":
        return Chain(self.secret, self.calls, self._digest(b"asked", self.digest(b"before"), json_bytes(value)))

    def _result(self, message: Mapping[str, Any], rest: dict[str, Any], text: str) -> "Chain":
        id = message.get("tool_call_id")
        call = self.calls.get(id)
        if call is None:
            call = json_bytes([id, rest])
        else:  # some protocols send the tool's name with a result
            rest.pop("name", None)
        return self._with(self._digest(b"result", call, json_bytes([rest, text])))

    def _with(self, digest: bytes) -> "Chain":
        return self._replace(open=(self.open + int.from_bytes(digest)) % _MODULUS)

    def _digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self.secret, b"\0".join([b"%d" % len(p) + p for p in parts]), "sha256")


def called(call: Mapping[str, Any]) -> bytes:
    """A call in canonical form, since clients may rewrite white space and integers in arguments."""
    function = call.get("function") or {}
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(arguments, str):
        try:
            return json_bytes([name, json.loads(arguments or "{}", parse_float=_number)])
        except (ValueError, RecursionError):
            return json_bytes([name, arguments])
    return json_bytes([name, arguments])


def thought(message: Mapping[str, Any]) -> bytes:
    """A digest of a message's reasoning, without the white space around it; empty if it has none."""
    text = str(message.get("reasoning_content") or "").strip()
    return sha256(_utf8(text)).digest() if text else b""


def json_bytes(value: Any) -> bytes:
    """Encode a value as bytes that depend only on the value."""
    return _utf8(json.dumps(value, sort_keys=True, default=str))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(content: Any) -> str:
    if isinstance(content, list):  # clients may add cache markers to parts, so only texts and digests count
        parts = [part for part in content if isinstance(part, Mapping)]
        content = "".join(f"\0{p['sha256']}" if is_medium(p) else str(p.get("text", "")) for p in parts)
    return content if isinstance(content, str) else json.dumps(content) if content else ""


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
