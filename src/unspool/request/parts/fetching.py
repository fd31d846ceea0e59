"""Fetches parts from the hosts that the operator has named."""

import asyncio
import logging
from collections.abc import Sequence

from ...tools.addresses import AddressRefused
from ...tools.fetch import Fetcher
from ..fields import BadRequest
from ..settings import Limits
from .reading import Unread

log = logging.getLogger("unspool.server")
_AT_ONCE = 4


async def fetch_parts(parts: Sequence[Unread], hosts: Sequence[str], limits: Limits) -> dict[str, bytes]:
    """The bytes of parts that have a URL, by their URLs.

    The reason of a refusal is only in the log if it could tell the client about the server's network.
    """
    found: dict[str, bytes] = {}
    fetcher = Fetcher(hosts, private=False, time=limits.fetch, size=limits.media)
    places = asyncio.Semaphore(_AT_ONCE)

    async def fetch(part: Unread) -> None:
        async with places:
            if not fetcher.admits(part.url):
                raise BadRequest(part.where, "the server does not read from this host; send the bytes as a data: URL")
            try:
                found[part.url] = (await fetcher.fetch(part.url)).body
            except AddressRefused as error:
                log.warning("a part is not fetched: %.500s", error)
                raise BadRequest(part.where, "cannot be fetched; send the bytes as a data: URL") from None
            if sum(map(len, found.values())) > limits.media:
                raise BadRequest(part.where, f"the parts have more than {limits.media:,} bytes")

    try:
        async with asyncio.timeout(limits.fetch), asyncio.TaskGroup() as group:
            for part in {part.url: part for part in parts}.values():
                group.create_task(fetch(part))
    except TimeoutError:
        raise BadRequest(parts[0].where, f"the parts cannot be fetched within {limits.fetch:g} seconds") from None
    except BaseExceptionGroup as group_:
        raise next((e for e in group_.exceptions if isinstance(e, BadRequest)), group_) from None
    finally:
        await fetcher.aclose()
    return found
