"""Reads the parts of messages that are not text, and checks and bounds their bytes.

A protocol reads each of them with its row of the tables below, into a part with an `Unread`. When all URLs are fetched,
`settled` replaces these by media, and documents by their text.
"""

import base64
import binascii
import logging
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final

import msgspec

from ...engines.media import Medium, is_medium
from ...tools import ToolResult
from ...validation import json_shown
from ...wire.encoding import clean
from ..chat_request import ChatRequest
from ..common import in_one
from ..fields import REQUIRED, BadRequest, Fields
from ..settings import Limits
from .formats import FORMATS, PDF, BadMedium, MediaFormat, recognize

log = logging.getLogger("unspool.server")
_UNREAD: Final = "unread"
_FILE: Final = "file"  # the kind of parts whose bytes alone say what they are
_TYPES: Final = {kind: [f.type for f in FORMATS if f.kind == kind] for kind in ("image", "audio", "video")} | {
    "document": ["text/plain"]
}
_ROLES: Final = ("user", "tool", "function")  # the roles of messages that have such parts
_SHOWN: Final = 200
_DATA: Final = re.compile(r"data:([^,]{0,200}),", re.IGNORECASE)
_STEP: Final = 256 * 1024  # a multiple of four, as base64 is decoded
_NO_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_HTTP: Final = re.compile(r"https?://", re.IGNORECASE)


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A part whose bytes have not been checked."""

    where: str  # the field that has its bytes or its URL, for messages
    kind: str  # one of `unspool.engines.media.MEDIA`, ``document``, or ``file`` for any
    # data, url: its bytes, or where they are.
    data: bytes | None = None
    url: str = ""
    name: str = ""  # the name of a document
    context: str = ""  # what is said about it


Forms = Mapping[str, str | Callable[[Fields], Unread]]
"""How a protocol writes parts, by their types: the field of a text, or what reads another part."""


def read_parts(fields: Fields, field: str, forms: Forms, default: Any = REQUIRED) -> Any:
    """Read a string, or a list of parts; those of text alone are one string."""
    value = fields.raw.get(field)
    return value if isinstance(value, str) else in_one([read_part(p, forms) for p in fields.objects(field, default)])


def read_part(part: Fields, forms: Forms) -> dict[str, Any]:
    """Read a part in the form of chat completions, or for `settled`."""
    read = forms.get(part.text("type"))
    if read is None:
        shown = json_shown(part.raw["type"])
        raise part.wrong("type", f"{shown} is not supported; allowed are {', '.join(forms)}")
    if isinstance(read, str):
        return {"type": "text", "text": part.text(read)}
    found = read(part)
    return {"type": found.kind, _UNREAD: found}


def _url(fields: Fields, field: str, kind: str, name: str = "") -> Unread:
    """A part at a URL. ``data:`` is decoded; only ``http`` and ``https`` can be fetched."""
    url, where = fields.text(field).strip(), fields.path(field)
    if head := _DATA.match(url):
        data = clean(url[head.end() :]).encode()
        if b"%" in data:
            data = _in_steps(partial(_unescaped, fields, field), data)
        if head[1].lower().replace(" ", "").endswith(";base64"):
            data = _decoded(where, data)
        return Unread(where=where, kind=kind, data=data, name=name)
    if not _HTTP.match(url):
        raise fields.wrong(field, f"{json_shown(url[:_SHOWN])} is not a data: URL, nor one of http or https")
    if "@" in url.split("/", 3)[2] or not url.isprintable():  # a password is not repeated, as logs keep errors
        raise fields.wrong(field, "a URL with a user name, a password or unprintable characters is not read")
    return Unread(where=where, kind=kind, url=url, name=name)


def _base64(fields: Fields, field: str, kind: str, name: str = "") -> Unread:
    """A part in base64, or, as some clients write it, with ``data:`` in front."""
    if fields.text(field)[:5].lower() == "data:":
        return _url(fields, field, kind, name)
    where = fields.path(field)
    return Unread(where=where, kind=kind, data=_decoded(where, clean(fields.raw[field]).encode()), name=name)


def _decoded(where: str, data: bytes) -> bytes:
    for form in (data, data.translate(None, b" \t\n\r\f\v")):
        bare = form.rstrip(b"=")  # clients write too much padding, or none
        if b"=" not in bare:  # each step would take its own
            with suppress(binascii.Error):
                return _in_steps(partial(base64.b64decode, validate=True), bare + b"=" * (-len(bare) % 4))
    raise BadRequest(where, "is not base64")


def _unescaped(fields: Fields, field: str, data: bytes) -> bytes:
    if _NO_ESCAPE.search(data):
        raise fields.wrong(field, "has a % that begins no escape")
    # This decoder is faster than that of URLs, and needs no object for each escape.
    return binascii.a2b_qp(data.replace(b"=", b"=3D").replace(b"%", b"="))


def _in_steps(decode: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Decode in steps, none of which cuts an escape: while a decoder works, no other thread does, nor the loop."""
    made, at = [], 0
    while at < len(data):
        end = at + _STEP
        cut = data.rfind(b"%", end - 2, end)
        end = end if cut < 0 else cut
        made.append(decode(data[at:end]))
        at = end
    return b"".join(made)


def _linked(field: str, kind: str) -> Callable[[Fields], Unread]:
    """OpenAI's form: the URL in an object, or alone."""

    def read(part: Fields) -> Unread:
        if isinstance(part.raw.get(field), str):
            return _url(part, field, kind)
        _no_id(part)
        if not part.has(field):
            raise part.wrong(field, "is required")
        return _url(part.object(field), "url", kind)

    return read


def _no_id(fields: Fields) -> None:
    if fields.has("file_id"):
        raise fields.wrong("file_id", "is not supported: no files are stored; send the bytes")


def _sound(part: Fields) -> Unread:
    return _base64(part.object("input_audio"), "data", "audio")


def _file(part: Fields) -> Unread:
    """A file of OpenAI's, whose fields Responses does not nest."""
    fields = part.object("file") if part.raw["type"] == "file" else part
    _no_id(fields)
    name = fields.text("filename", "")
    if fields.has("file_url"):
        return _url(fields, "file_url", _FILE, name)
    return _base64(fields, "file_data", _FILE, name)


def _source(kind: str) -> Callable[[Fields], Unread]:
    """Anthropic's and AG-UI's form: the bytes, the text or the URL in ``source``."""

    def read(part: Fields) -> Unread:
        # Whether an engine makes an image smaller is its own business.
        part.object("transformations").one_of("oversized_image", ("downsize",), "downsize")
        found = read_source(part.object("source"), part.text("title", "") or "")
        context = part.text("context", "") or ""
        return msgspec.structs.replace(found, context=context) if context else found

    def read_source(source: Fields, name: str) -> Unread:
        form = source.one_of("type", ("base64", "data", "url", "text", "content"))
        if form in ("text", "content"):
            field = "data" if form == "text" else "content"
            text = source.text(field) if isinstance(source.raw.get(field), str) else _texts(source, field)
            return Unread(where=source.path(field), kind="document", data=clean(text).encode(), name=name)
        if form == "url":
            return _url(source, "url" if source.has("url") else "value", kind, name)
        return _base64(source, "data" if form == "base64" else "value", kind, name)

    return read


def _texts(source: Fields, field: str) -> str:
    """The texts of the blocks of a document."""
    blocks = list(source.objects(field))
    for block in blocks:
        block.one_of("type", ("text",))
    return "\n".join(block.text("text") for block in blocks)


def _search_result(part: Fields) -> Unread:
    """Anthropic's form of something that a client found."""
    data = clean(_texts(part, "content")).encode()
    source, title = part.text("source"), part.text("title", "")
    return Unread(where=part.path("content"), kind="document", data=data, name=title, context=source)


def _binary(part: Fields) -> Unread:
    """A part of AG-UI before 1.0."""
    name = part.text("filename", "")
    return _base64(part, "data", _FILE, name) if part.has("data") else _url(part, "url", _FILE, name)


TEXT: Final[Forms] = {"text": "text"}
RESPONSES: Final[Forms] = {
    **dict.fromkeys(("input_text", "output_text"), "text"),
    "refusal": "refusal",
    "input_image": _linked("image_url", "image"),
    "input_audio": _sound,
    "input_file": _file,
    **TEXT,
}
SCREENSHOT: Final[Forms] = {"computer_screenshot": _linked("image_url", "image")}
CHAT: Final[Forms] = {
    **TEXT,
    "image_url": _linked("image_url", "image"),
    "video_url": _linked("video_url", "video"),
    "audio_url": _linked("audio_url", "audio"),
    "file": _file,
    **RESPONSES,  # some clients write these
}
MESSAGES: Final[Forms] = {
    **TEXT,
    "image": _source("image"),
    "document": _source(_FILE),
    "search_result": _search_result,
    "tool_reference": "tool_name",
}
AGUI: Final[Forms] = {
    **TEXT,
    **{kind: _source(kind) for kind in ("image", "audio", "video")},
    "document": _source(_FILE),
    "binary": _binary,
    "refusal": "refusal",
}


# -- after reading -----------------------------------------------------------------------------------------------------


def urls(request: ChatRequest, limits: Limits) -> list[Unread]:
    """The parts of a request that must be fetched; an error if there are too many parts."""
    contents = [m["content"] for m in request.messages if isinstance(m.get("content"), list)]
    found: list[Unread] = [part[_UNREAD] for content in contents for part in content if _UNREAD in part]
    if len(found) > limits.parts:
        raise BadRequest(found[limits.parts].where, f"{len(found):,} parts; allowed are {limits.parts:,}")
    return [one for one in found if one.data is None]


def settled(request: ChatRequest, fetched: Mapping[str, bytes], limits: Limits) -> ChatRequest:
    """The request with its media, which messages name by digest, and the texts of documents, both also of URLs."""
    left = limits.media
    media: dict[str, Medium] = dict(request.media)
    messages = []
    for message in request.messages:
        content = message.get("content")
        if isinstance(content, list) and any(_UNREAD in part for part in content):
            made = []
            for part in content:
                if _UNREAD in part:
                    one = part[_UNREAD]
                    data = fetched.get(one.url) if one.data is None else one.data
                    if data is None:
                        raise BadRequest(one.where, "is not fetched here; send the bytes as a data: URL")
                    left -= len(data)
                    if left < 0:
                        raise BadRequest(one.where, f"the parts have more than {limits.media:,} bytes")
                    part = _checked(one, data, message["role"], limits, media)
                made.append(part)
            message = {**message, "content": in_one(made)}
        messages.append(message)
    return msgspec.structs.replace(request, messages=messages, media=media)


def _checked(one: Unread, data: bytes, role: str, limits: Limits, media: dict[str, Medium]) -> dict[str, Any]:
    if role not in _ROLES:
        reason = "has parts of text only, whatever the engine and the chat template take"
        raise BadRequest(one.where, f"{one.kind}: a message of role {role!r} {reason}")
    if not data and one.kind not in ("document", _FILE):  # there are empty texts
        raise BadRequest(one.where, "has no bytes")
    try:  # a text may begin as an image does
        found = MediaFormat("document", "text/plain") if one.kind == "document" else recognize(data)
    except BadMedium as error:
        raise BadRequest(one.where, str(error)) from None
    kinds = tuple(_TYPES) if one.kind == _FILE else (one.kind,)
    if found is None or found.kind not in kinds:
        allowed = ", ".join(type for kind in kinds for type in _TYPES[kind])
        what = "the bytes are of no type that is known" if found is None else f"the bytes are {found.type}"
        raise BadRequest(one.where, f"{what}; allowed are {allowed}")
    if found.type == PDF:
        reason = f"no engine and no chat template takes PDF, in a message of role {role!r} or any other"
        raise BadRequest(one.where, f"{PDF}: {reason}; send its text, or its pages as images")
    if found.width * found.height > limits.pixels:
        shown = f"{found.width:,} × {found.height:,} pixels"
        raise BadRequest(one.where, f"the image has {shown}; allowed are {limits.pixels:,} in all")
    if found.kind == "document":
        name = one.name or "document"
        context = one.context and f"{one.context}\n\n"
        return {"type": "text", "text": f"[{name}]\n{context}{data.decode()}\n[End of {name}]\n"}
    digest = sha256(data).hexdigest()
    size = {"width": found.width, "height": found.height}
    medium = Medium(kind=found.kind, type=found.type, data=data, sha256=digest, **size, role=role, where=one.where)
    media.setdefault(digest, medium)
    return medium.part


def result_content(result: ToolResult, taken: Collection[str], limits: Limits, media: dict[str, Medium]) -> Any:
    """The content of a message with the result of one of the server's own tools, whose media are added to those of the
    request. Notes stand for media that the model does not take, are not what they say, or are too many or large."""
    parts: list[dict[str, Any]] = []
    text, at = result.text, 0
    for one in result.media if taken else ():
        left = limits.media - sum(len(medium.data) for medium in media.values())
        if len(media) >= limits.parts or len(one.data) > left or not text.startswith(one.note, one.start):
            continue
        found: dict[str, Medium] = {}
        try:
            part = _checked(Unread(where="", kind=_FILE), one.data, "tool", limits, found)
        except BadRequest as error:
            log.info("a part of a tool's result is left out: %s", error)
            continue
        if is_medium(part) and part["type"] in taken:
            media |= found
            parts += [{"type": "text", "text": text[at : one.start]}, part]
            at = one.start + len(one.note)
    return in_one([part for part in (*parts, {"type": "text", "text": text[at:]}) if part.get("text", True)])
