"""`CountEndpoint`: Anthropic's ``/v1/messages/count_tokens``, the tokens of a prompt that is not generated from."""

from typing import Any

from starlette.types import Scope, Send

from ..engines.threads import Awaited
from ..generation.service import log
from ..grammar import bounds
from ..request.chat_request import check_text
from ..request.fields import BadRequest, Fields, read_object
from ..request.prepared import with_edits
from ..tokens import counted
from ..wire.common import Failure
from ..wire.encoding import encode
from .endpoint import Endpoint
from .replies import Reply, failed


class CountEndpoint(Endpoint):
    """An ASGI application that counts the tokens of what the protocol's own endpoint would generate from.

    Args:
        service: what all requests share.
        protocol: reads the requests.
    """

    async def _answer(self, scope: Scope, body: bytes, send: Send) -> None:
        protocol = self._protocol
        try:
            counts = await self._service.in_thread(len(body), lambda awaited: self._count(body, awaited))
            reply = Reply(encode(counts))
        except BadRequest as error:
            failure = Failure(str(error), error.status or protocol.invalid_status, error.param)
            reply = failed(protocol.error_body, failure)
        except Exception:
            log.exception("%s: the request could not be read", scope["path"])
            reply = failed(protocol.error_body, Failure("internal server error", 500))
        self._service.metrics.response(scope["path"], reply.status)
        await reply.send(send)

    def _count(self, body: bytes, awaited: Awaited) -> dict[str, Any]:
        service = self._service
        tokenizer = service.engine.tokenizer
        if service.turns is None or tokenizer is None:
            raise BadRequest(None, "the server knows no tokenizer of the model, so it cannot count its tokens", 501)
        with bounds.awaited(awaited.check):
            request = self._protocol.read(Fields({"max_tokens": 1, **read_object(body).raw}))
        check_text(request, service.settings.limits)
        awaited.check()
        told: dict[str, Any] = {}
        if request.edits:
            told = {"context_management": {"original_input_tokens": service.turns.count(request, awaited.check)}}
            request = with_edits(request, service.turns, awaited)
        prompt = service.turns.prompt(request)
        awaited.check()
        ids = prompt.ids
        tokens = counted(tokenizer, prompt.prompt, awaited.check) if ids is None else len(ids)
        return {"input_tokens": tokens, **told}
