"""`CompletionsEndpoint`: ``/v1/completions``, for prompts that clients write themselves."""

from collections.abc import Callable

from ..engines.threads import Awaited
from ..request.exact import Exact
from ..request.fields import Fields
from ..request.prepared import Prepared
from ..request.protocols import CompletionsProtocol
from ..request.raw import prepare_raw
from ..request.server_tools import Offer
from .endpoint import Endpoint


class CompletionsEndpoint(Endpoint):
    """An ASGI application that answers requests for raw completions."""

    async def _prepare(
        self, size: int, fields: Fields, offer: Offer, turn: Exact | None, hold: Callable[[int], None]
    ) -> Prepared:
        protocol, engine, prompts = self._protocol, self._service.engine, self._service.prompts
        eos = "" if prompts is None else prompts.named.get("eos_token", "")
        assert isinstance(protocol, CompletionsProtocol)

        def make(awaited: Awaited) -> Prepared:
            return prepare_raw(protocol.read(fields), engine, eos)

        return await self._service.in_thread(size, make)
