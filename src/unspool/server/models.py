"""Several models behind one server: `by_model` has the applications that choose one by what a request names."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from ..arguments import json_shown
from ..engines import Engine
from ..generation.service import Service
from ..request.fields import BadRequest, read_object
from ..request.prompts import Prompts
from ..request.protocols import WireProtocol
from ..request.settings import Settings
from ..wire.common import Failure
from .endpoint import Endpoint, answer
from .replies import failed

__all__ = ["Served", "by_model", "unknown_model"]

_SHOWN = 200
"""How many characters of an unknown name are told."""
_LONG = 16 * 1024
"""Bytes from which a request is read in a thread."""


class Served(NamedTuple):
    """A model.

    Attributes:
        settings: how it is served.
        engine: generates its outputs.
        prompts: its chat template.
    """

    settings: Settings
    engine: Engine
    prompts: Prompts | None = None


def by_model(served: Mapping[Service, Mapping[str, WireProtocol]]) -> dict[str, ASGIApp]:
    """The applications of several models, by path.

    Args:
        served: the protocols of each model, by path; the first one is the default.
    """
    found: dict[str, dict[Service, WireProtocol]] = {}
    for service, protocols in served.items():
        for path, protocol in protocols.items():
            found.setdefault(path, {})[service] = protocol
    return {path: _ByModel(protocols) for path, protocols in found.items()}


def unknown_model(name: str, service: Service) -> Failure:
    """What to say of a model that is not served."""
    models = [one.settings.model for one in service.models]
    served = f"it is {models[0]!r}" if len(models) == 1 else f"there are {', '.join(map(repr, models))}"
    text = f"the model {json_shown(name[:_SHOWN])} is not served; {served}"
    return Failure(text, 404, "model", code="model_not_found")


class _ByModel:
    """An ASGI application that answers the requests of one protocol by the model that they name."""

    def __init__(self, protocols: Mapping[Service, WireProtocol]) -> None:
        self._endpoints = {one.settings.model: Endpoint(one, protocol) for one, protocol in protocols.items()}
        (self._first, protocol), *_ = protocols.items()
        self._error_body = protocol.error_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await answer(self._first, self._error_body, scope, receive, send, self._choose)

    async def _choose(self, scope: Scope, body: bytes, send: Send) -> None:
        size = len(body)
        name = _named(body) if size < _LONG else await self._first.in_thread(size, lambda _: _named(body))
        endpoint = self._endpoints.get(self._first.settings.model if name is None else name)
        if endpoint is not None:
            await endpoint.respond(scope, body, send)
            return
        reply = failed(self._error_body, unknown_model(str(name), self._first))
        self._first.metrics.response(scope["path"], reply.status)
        await reply.send(send)


class _Model(msgspec.Struct):
    """The fields that name a model: AG-UI has none of its own, and passes others' on."""

    model: Any = None
    forwardedProps: Any = None


def _named(body: bytes) -> str | None:
    """The model that a request names; ``None``: none, or the request cannot be read, which its endpoint tells."""
    try:
        found = msgspec.json.decode(body, type=_Model)
    except (msgspec.DecodeError, RecursionError):  # of which some are none to `read_object`
        try:
            fields = read_object(body)
        except BadRequest:
            return None
        found = _Model(fields.raw.get("model"), fields.raw.get("forwardedProps"))
    name = found.model
    if name is None and isinstance(found.forwardedProps, dict):
        name = found.forwardedProps.get("model")
    return name if isinstance(name, str) else None
