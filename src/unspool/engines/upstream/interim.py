"""A bound for interim responses (1xx), which a server may send before the response that is waited for."""

from typing import Any, Final

import aiohttp
from aiohttp.http import HttpProcessingError

_MOST: Final = 16


class BoundedResponse(aiohttp.ClientResponse):
    """A response after a few interim ones at most, which aiohttp skips without a limit."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        protocol, left = connection.protocol, _MOST
        read = protocol.read

        async def bounded() -> Any:
            nonlocal left
            found = await read()
            left -= 1
            if left < 0:
                raise HttpProcessingError(code=502, message=f"more than {_MOST} interim responses")
            return found

        protocol.read = bounded
        try:
            return await super().start(connection)
        finally:
            del protocol.read
