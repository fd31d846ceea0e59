"""`CountEndpoint`: Anthropic's ``/v1/messages/count_tokens``, which counts the tokens of a prompt."""

from typing import Any

import msgspec
from starlette.types import Scope, Send

from ..engines.threads import Awaited
from ..generation.service import log
from ..grammar import bounds
from ..request.chat_request import ChatRequest, check_text
from ..request.fields import BadRequest, Fields
from ..request.parts.reading import settled
from ..request.prepared import with_edits
from ..request.server_tools import Offer
from ..tokens import counted
from ..tools import Tools
from ..wire.common import Failure
from ..wire.encoding import encode
from .endpoint import Endpoint
from .own_tools import own_tools
from .replies import Reply, failed


class CountEndpoint(Endpoint):
    """An ASGI application that counts the tokens of the prompt that the protocol's own endpoint would use.

    Args:
        service: what all requests share.
        protocol: reads the requests.
    """

    async def _answer(self, scope: Scope, body: bytes, send: Send) -> None:
        protocol = self._protocol
        own = Tools(())
        try:
            fields = await self._parse(body)
            own = own_tools(self._service.settings, protocol.own_servers(fields), self._service.tools)
            offer = await self._offer(scope, fields, own)
            service = self._service
            request = await service.in_thread(len(body), lambda awaited: self._read(fields, offer, awaited))
            fetched = await service.fetched(request)
            found = settled(request, fetched, service.settings.limits)
            counts = await service.in_thread(len(body), lambda awaited: self._count(found, awaited))
            reply = Reply(encode(counts))
        except BadRequest as error:
            failure = Failure(str(error), error.status or protocol.invalid_status, error.param)
            reply = failed(protocol.error_body, failure)
        except Exception:
            log.exception("%s: the request could not be read", scope["path"])
            reply = failed(protocol.error_body, Failure("internal server error", 500))
        finally:
            await own.aclose()
        self._service.answered(scope["path"], reply.status)
        await reply.send(send)

    def _read(self, fields: Fields, offer: Offer, awaited: Awaited) -> ChatRequest:
        with bounds.awaited(awaited.check):
            request = self._protocol.read(Fields({"max_tokens": 1, **fields.raw}), offer)
        return msgspec.structs.replace(request, caller=offer.caller)

    def _count(self, request: ChatRequest, awaited: Awaited) -> dict[str, Any]:
        service = self._service
        tokenizer = service.engine.tokenizer
        if service.turns is None or tokenizer is None:
            raise BadRequest(None, "the server has no tokenizer for the model, so it cannot count tokens", 501)
        check_text(request, service.settings.limits)
        awaited.check()
        before: dict[str, Any] = {}
        if request.edits:
            before = {"context_management": {"original_input_tokens": service.turns.count(request, awaited)}}
            request = with_edits(request, service.turns, awaited)
        prompt = service.turns.prompt(request, awaited)
        awaited.check()
        ids = prompt.ids
        tokens = counted(tokenizer, prompt.prompt, awaited.check) if ids is None else len(ids)
        tokens += sum(medium.tokens for medium in service.turns.media(prompt.prompt, request))
        return {"input_tokens": tokens, **before}
