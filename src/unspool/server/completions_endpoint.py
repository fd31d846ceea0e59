"""`CompletionsEndpoint`: ``/v1/completions``, for prompts that clients write themselves."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..engines.threads import Awaited
from ..request.exact import Exact
from ..request.fields import BadRequest, Fields
from ..request.prepared import Prepared
from ..request.protocols import CompletionsProtocol
from ..request.raw import prepare_raw
from ..request.server_tools import Offer
from .endpoint import Endpoint

if TYPE_CHECKING:
    from ..sessions import Session


class CompletionsEndpoint(Endpoint):
    """An ASGI application that answers requests for raw completions."""

    async def _prepare(
        self,
        size: int,
        fields: Fields,
        offer: Offer,
        hold: Callable[[int], None],
        turn: Exact | None,
        session: "Session | None",
    ) -> Prepared:
        protocol, engine, prompts = self._protocol, self._service.engine, self._service.prompts
        eos = "" if prompts is None else prompts.named.get("eos_token", "")
        assert isinstance(protocol, CompletionsProtocol)

        def make(awaited: Awaited) -> Prepared:
            request = protocol.read(fields)
            if session is not None:
                if request.echo:
                    raise BadRequest("echo", "is not possible in a session, which records what is sampled")
                request = session.adapted(request)
            return prepare_raw(request, engine, eos)

        return await self._service.in_thread(size, make)
