"""Stateless approvals of calls: each approval request has an id that only this server can make for this call.

The id has a random part and a MAC over that, the tool server, the tool, its arguments and the client's API key. An
answer with this id proves that the call is exactly the one that was shown.
"""

import hashlib
import hmac
import json
import secrets
from typing import Final

PREFIX: Final = "mcpr_"
_NONCE: Final = 16  # characters
_MAC: Final = 32


class Approvals:
    """Makes and checks the ids for one client with the server's secret and the client's API key."""

    def __init__(self, key: bytes, caller: bytes = b"") -> None:
        self._key = key
        self._caller = hashlib.sha256(caller).hexdigest()

    def ask(self, server: str, tool: str, arguments: str) -> str:
        """Make the id of a request to approve a call, by its server, the tool's name there, and its JSON text."""
        return self._made(secrets.token_hex(_NONCE // 2), server, tool, arguments)

    def answers(self, id: str, server: str, tool: str, arguments: str) -> bool:
        """Whether an id was made for this call, this client and with this key."""
        if not id.startswith(PREFIX) or not id.isascii():  # only ASCII can be compared in constant time
            return False
        return hmac.compare_digest(id, self._made(id[len(PREFIX) :][:_NONCE], server, tool, arguments))

    def _made(self, nonce: str, *call: str) -> str:
        signed = json.dumps([self._caller, nonce, *call]).encode()
        return PREFIX + nonce + hmac.new(self._key, signed, hashlib.sha256).hexdigest()[:_MAC]
