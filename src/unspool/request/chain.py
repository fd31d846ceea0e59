"""`Chain`: a digest of a conversation up to some message, the same in every form in which a client may send it back.

Protocols spread an answer over messages in different ways: one gives each call a message of its own, another has them
in one, with the results as they came. So calls and results that nothing is said between count as one, whatever their
order and messages. Reasoning is not counted, as clients leave it out; ids only say what a result is a result of.
"""

import hmac
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

__all__ = ["Chain", "called", "json_bytes", "thought"]

_APART: Final = ("role", "content", "tool_calls", "reasoning_content", "tool_call_id")
_MODULUS: Final = 1 << 256


class Chain(NamedTuple):
    """A conversation up to some message.

    Attributes:
        secret: what digests are made with.
        calls: names and arguments by id, shared by all that come of one conversation.
        before: the digest of what stands before the open calls.
        open: the sum of the digests of calls and results behind it.
    """

    secret: bytes
    calls: dict[Any, bytes]
    before: bytes
    open: int = 0

    def digest(self, use: bytes) -> bytes:
        """The digest of all so far, for one use."""
        return self._digest(use, self.before, self.open.to_bytes(32))

    def apart(self) -> "Chain":
        """The same with calls of its own, for several conversations that go on from here."""
        return self._replace(calls=dict(self.calls))

    def take(self, message: Mapping[str, Any]) -> "Chain":
        """The chain with one more message."""
        role, text = message["role"], _text(message.get("content"))
        if role != "assistant":
            rest = {key: value for key, value in message.items() if key not in _APART and value}
            return self._result(message, rest, text) if role == "tool" else self._said([role, rest, text])
        chain = self._said([role, text]) if text else self
        for call in message.get("tool_calls") or ():
            told = chain._digest(b"call", called(call))
            chain.calls[call.get("id")] = told
            chain = chain._with(told)
        return chain

    def _said(self, told: Any) -> "Chain":
        return Chain(self.secret, self.calls, self._digest(b"said", self.digest(b"before"), json_bytes(told)))

    def _result(self, message: Mapping[str, Any], rest: dict[str, Any], text: str) -> "Chain":
        id = message.get("tool_call_id")
        call = self.calls.get(id)
        if call is None:
            call = json_bytes([id, rest])
        else:  # some protocols tell the call's name beside its id
            rest.pop("name", None)
        return self._with(self._digest(b"result", call, json_bytes([rest, text])))

    def _with(self, told: bytes) -> "Chain":
        return self._replace(open=(self.open + int.from_bytes(told)) % _MODULUS)

    def _digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self.secret, b"\0".join([b"%d" % len(p) + p for p in parts]), "sha256")


def called(call: Mapping[str, Any]) -> bytes:
    """What a call says, in a form that survives a client's own reading: clients write arguments anew, with other spaces
    and other forms of whole numbers."""
    function = call.get("function") or {}
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(arguments, str):
        try:
            return json_bytes([name, json.loads(arguments or "{}", parse_float=_number)])
        except (ValueError, RecursionError):
            return json_bytes([name, arguments])
    return json_bytes([name, arguments])


def thought(message: Mapping[str, Any]) -> bytes:
    """A digest of the reasoning of a message, without the space around it; empty where it has none."""
    text = str(message.get("reasoning_content") or "").strip()
    return sha256(text.encode("utf-8", "surrogatepass")).digest() if text else b""


def json_bytes(value: Any) -> bytes:
    """A value as bytes, the same for the same value."""
    return json.dumps(value, sort_keys=True, default=str).encode("utf-8", "surrogatepass")


def _text(content: Any) -> str:
    if isinstance(content, list):  # of its parts the text alone: clients mark others for a cache from time to time
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content.strip() if isinstance(content, str) else json.dumps(content) if content else ""


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
