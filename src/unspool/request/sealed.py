"""Sealed reasoning: encrypted text that clients keep and send back, and that only the server can read.

``encrypted_content`` of Responses, ``encryptedValue`` of AG-UI and ``signature`` of Anthropic's thinking are such
texts. They use AES-GCM-SIV from the package cryptography (the extra ``seal``), are bound to the client's API key, and
are made with the first of several keys. All keys can open, so keys can be rotated. The format, in base64url::

    version (1 byte) | key (4 bytes of its digest) | nonce (12 bytes) | ciphertext and tag
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Sequence
from copy import copy
from typing import Final

from ..wire.encoding import clean

MAX_SEALED: Final = 2 * 1024 * 1024  # the longest sealed text, in characters; longer reasoning is not sealed
_KEY: Final = 32
_VERSION: Final = b"\x01"
_PURPOSE: Final = b"unspool sealed reasoning"
_ID: Final = 4
_NONCE: Final = 12
_HEAD: Final = len(_VERSION) + _ID + _NONCE


class SealError(ValueError):
    """A text was not sealed here, or was changed."""


def read_keys(text: str) -> list[bytes]:
    """Read keys, separated by white space: each 32 random bytes in base64, as ``openssl rand -base64 32`` prints them.
    The message of a `ValueError` does not repeat them."""
    keys = []
    for i, word in enumerate(text.split()):
        try:
            key = base64.b64decode(word.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"key {i + 1} is not base64") from None
        if len(key) != _KEY:
            raise ValueError(f"key {i + 1} has {len(key)} bytes; {_KEY} are needed (openssl rand -base64 {_KEY})")
        keys.append(key)
    if not keys:
        raise ValueError(f"contains no key; openssl rand -base64 {_KEY} prints one")
    return keys


class Seal:
    """Seals and opens texts for clients without an API key; `bound_to` returns the seal for another client. The first
    of the keys, of 32 bytes each, seals, and all open."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

        if not keys:
            raise ValueError("keys: at least one is needed")
        self._ciphers: dict[bytes, AESGCMSIV] = {}
        for key in reversed(keys):
            if len(key) != _KEY:
                raise ValueError(f"keys: one has {len(key)} bytes; {_KEY} are needed")
            # The same key may serve other purposes elsewhere.
            own = hmac.digest(key, _PURPOSE, "sha256")
            self._first = hmac.digest(own, b"name", "sha256")[:_ID]
            self._ciphers[self._first] = AESGCMSIV(own)
        self._bound = hashlib.sha256(b"").digest()

    def bound_to(self, api_key: bytes) -> "Seal":
        """Return the seal for one client: what it seals does not open for a client with another API key."""
        seal = copy(self)
        seal._bound = hashlib.sha256(api_key).digest()
        return seal

    def seal(self, text: str) -> str | None:
        """Seal a text; ``None`` if it is too long."""
        data = clean(text).encode()
        if (_HEAD + len(data) + 16) * 4 // 3 + 4 > MAX_SEALED:
            return None
        nonce = os.urandom(_NONCE)
        head = _VERSION + self._first
        sealed = self._ciphers[self._first].encrypt(nonce, data, head + self._bound)
        return base64.urlsafe_b64encode(head + nonce + sealed).decode()

    def open(self, sealed: str) -> str:
        """Open a sealed text; `SealError` if no key for this API key sealed it, or it was changed."""
        from cryptography.exceptions import InvalidTag

        if len(sealed) > MAX_SEALED:
            raise SealError(f"has {len(sealed):,} characters; allowed are {MAX_SEALED:,}")
        foreign = SealError("was made by another server or for another API key, or was changed; leave the item out")
        try:
            data = base64.b64decode(sealed.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise foreign from None
        head, nonce, rest = data[: _HEAD - _NONCE], data[_HEAD - _NONCE : _HEAD], data[_HEAD:]
        cipher = self._ciphers.get(head[len(_VERSION) :])
        if head[: len(_VERSION)] != _VERSION or cipher is None or len(rest) < 16:
            raise foreign
        try:
            return cipher.decrypt(nonce, rest, head + self._bound).decode()
        except InvalidTag:
            raise foreign from None
