"""Several models in one server: `by_model` makes applications that choose the model that a request names."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from starlette.types import Scope, Send

from ..engines import Engine
from ..generation.service import Service
from ..request.fields import BadRequest, read_object
from ..request.prompts import Prompts
from ..request.settings import Settings
from ..validation import json_shown
from ..wire.common import Failure
from ..wire.decoding import decode
from .endpoint import Endpoint
from .replies import ErrorBody, failed

_SHOWN = 200  # how many characters of an unknown name are shown


class Served(NamedTuple):
    """A served model: its settings, the engine that generates its outputs, and its chat template."""

    settings: Settings
    engine: Engine
    prompts: Prompts | None = None


def by_model(
    endpoints: Mapping[Service, Mapping[str, Endpoint]], error_body: Callable[[str], ErrorBody]
) -> dict[str, Endpoint]:
    """Make the applications of several models, by path, from the endpoints of each; the first is the default."""
    first = next(iter(endpoints))
    return {
        path: _ByModel(first, {one.settings.model: found[path] for one, found in endpoints.items()}, error_body(path))
        for path in endpoints[first]
    }


def unknown_model(name: str, service: Service) -> Failure:
    """The failure for a model that is not served."""
    models = [one.settings.model for one in service.models]
    served = f"it is {models[0]!r}" if len(models) == 1 else f"there are {', '.join(map(repr, models))}"
    text = f"the model {json_shown(name[:_SHOWN])} is not served; {served}"
    return Failure(text, 404, "model", code="model_not_found")


class _ByModel(Endpoint):
    """An ASGI application that passes each request of one protocol to the model that it names."""

    def __init__(self, first: Service, endpoints: Mapping[str, Endpoint], error_body: ErrorBody) -> None:
        super().__init__(first, error_body)
        self._endpoints = endpoints

    async def respond(self, scope: Scope, body: bytes, send: Send) -> None:
        first = self._service
        name = await self._read(body, _named)
        endpoint = self._endpoints.get(first.settings.model if name is None else name)
        if endpoint is not None:
            await endpoint.respond(scope, body, send)
            return
        await self._send(failed(self._error_body, unknown_model(str(name), first)), scope, send)


class _ModelFields(msgspec.Struct):
    """The fields that may name a model. AG-UI has no field of its own, and passes on those of other protocols."""

    model: msgspec.Raw = msgspec.Raw(b"null")
    forwardedProps: msgspec.Raw = msgspec.Raw(b"null")


_MODEL = msgspec.json.Decoder(_ModelFields)


def _named(body: bytes) -> str | None:
    """The model that a request names; ``None`` if there is none, or if its endpoint must report a bad request."""
    try:
        found = _MODEL.decode(body)
        name, passed = decode(bytes(found.model)), bytes(found.forwardedProps)
        if name is None and passed.startswith(b"{"):
            name = decode(bytes(_MODEL.decode(passed).model))
    except (ValueError, RecursionError):  # `read_object` may still accept some of these
        try:
            fields = read_object(body)
        except BadRequest:
            return None
        name, options = fields.raw.get("model"), fields.raw.get("forwardedProps")
        if name is None and isinstance(options, dict):
            name = options.get("model")
    return name if isinstance(name, str) else None
