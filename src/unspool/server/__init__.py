"""The HTTP server: the ASGI application, its pages and its connections.

`create_app` makes the application, `serve` runs it; both need the extra ``server``, `Settings` does not. Requests are
read by `unspool.request` and run by `unspool.generation`, which know nothing of HTTP.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..request.settings import Limits, Settings

if TYPE_CHECKING:
    from .app import create_app
    from .main import serve

__all__ = ["Limits", "Settings", "create_app", "serve"]

_LATER = {"create_app": "app", "serve": "main"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)
