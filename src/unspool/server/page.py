"""The page at ``/``: its files, and the headers that isolate it."""

from hashlib import sha256
from importlib import resources
from pathlib import PurePosixPath
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect")),
        "img-src 'self' data:",  # the images of prompts
        *(f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors")),
        # No script can insert text where it would be read as markup.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cache-control": "no-cache",
}
_INDEX: Final = "index.html"


class PageFile:
    """A file of the page, which is read when the server starts."""

    def __init__(self, name: str, body: bytes) -> None:
        self._body = body
        self._headers = {**_HEADERS, "etag": f'"{sha256(body).hexdigest()[:32]}"'}
        self._type = _TYPES[PurePosixPath(name).suffix]

    async def answer(self, request: Request) -> Response:
        """Answer with the file, unless the browser already has it."""
        if request.headers.get("if-none-match") == self._headers["etag"]:
            return Response(status_code=304, headers=self._headers)
        return Response(self._body, headers=self._headers, media_type=self._type)


def page_routes() -> tuple[list[Route], PageFile]:
    """The routes of the page's files, under ``/ui/``, and of the page itself."""
    folder = resources.files(__package__).joinpath("ui")
    found = sorted((f for f in folder.iterdir() if PurePosixPath(f.name).suffix in _TYPES), key=lambda f: f.name)
    files = {f.name: PageFile(f.name, f.read_bytes()) for f in found}
    return [Route(f"/ui/{name}", file.answer) for name, file in files.items()], files[_INDEX]
