"""Approvals of calls without state: whoever asks gets an id that only this server can have made for just this call.

The id holds a random part and a MAC over it, the tool server, the tool, its arguments and the client's API key. An
answer that comes back with it proves that the call is the one that was asked about, word for word.
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
    """Makes and checks the ids for one client.

    Args:
        key: the server's secret.
        caller: the client's API key; empty where it sent none.
    """

    def __init__(self, key: bytes, caller: bytes = b"") -> None:
        self._key = key
        self._caller = hashlib.sha256(caller).hexdigest()

    def ask(self, server: str, tool: str, arguments: str) -> str:
        """The id of a request to allow a call.

        Args:
            server: the label of its tool server.
            tool: its name there.
            arguments: its JSON text.
        """
        nonce = secrets.token_hex(_NONCE // 2)
        return PREFIX + nonce + self._mac(nonce, server, tool, arguments)

    def answers(self, id: str, server: str, tool: str, arguments: str) -> bool:
        """Whether an id was made for this call, this client and with this key."""
        nonce, mac = id[len(PREFIX) : len(PREFIX) + _NONCE], id[len(PREFIX) + _NONCE :]
        made = self._mac(nonce, server, tool, arguments)
        return id.startswith(PREFIX) and hmac.compare_digest(mac.encode(), made.encode())

    def _mac(self, nonce: str, *call: str) -> str:
        told = json.dumps([nonce, self._caller, *call]).encode()
        return hmac.new(self._key, told, hashlib.sha256).hexdigest()[:_MAC]
