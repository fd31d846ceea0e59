"""Recognizes media by their first bytes, and reads the sizes of images from their headers. Nothing is decoded.

PNG: https://www.w3.org/TR/png-3/#11IHDR; JPEG: ITU-T T.81, B.2.2; GIF: https://www.w3.org/Graphics/GIF/spec-gif89a.txt;
WebP: https://developers.google.com/speed/webp/docs/riff_container.
"""

import re
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final, NamedTuple


class MediaFormat(NamedTuple):
    """What bytes are: ``image``, ``audio``, ``video`` or ``document``, their media type, and an image's pixels."""

    kind: str
    type: str
    width: int = 0
    height: int = 0


class BadMedium(ValueError):
    """A header is malformed; the message says how."""


Size = tuple[int, int]
PDF: Final = "application/pdf"
_FRAMES: Final = frozenset({*range(0xC0, 0xD0), 0xDE} - {0xC4, 0xC8, 0xCC})
"""JPEG's markers of frames, which begin with the size."""
_ALONE: Final = frozenset((0x00, 0x01, *range(0xD0, 0xDA)))  # JPEG's markers without a segment
_UNKNOWN: Final = frozenset((*range(0x02, 0xC0), 0xC8, *range(0xF0, 0xFE)))  # JPEG's markers that nobody uses
_SCAN: Final = 0xDA


def _pieces(data: bytes) -> Iterator[None]:
    """One for each piece of an image that may be looked at; `BadMedium` where they are more than encoders write."""
    yield from repeat(None, 65_536 + len(data) // 64)
    raise BadMedium("the image consists of too many pieces")


def _png(data: bytes) -> Size:
    if data[12:16] != b"IHDR" or len(data) < 24:
        raise BadMedium("the header of the PNG is cut")
    at, headers, frames, announced = 8, 0, 0, 1
    pieces = _pieces(data)
    while at + 8 <= len(data):
        next(pieces)
        kind = data[at + 4 : at + 8]
        headers += kind == b"IHDR"
        frames += kind == b"fcTL"  # of an animation
        if kind == b"acTL":
            announced = max(announced, int.from_bytes(data[at + 8 : at + 12]))
        at += 12 + int.from_bytes(data[at : at + 4])
    if headers != 1:
        raise BadMedium("the PNG has several headers")
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24]) * max(announced, frames)


def _jpeg(data: bytes) -> Size:
    """The size of the only frame before the first scan. What is between segments is skipped, as decoders do."""
    at, size = 2, None
    pieces = _pieces(data)
    while (at := data.find(b"\xff", at)) >= 0 and at + 9 <= len(data):
        next(pieces)
        marker = data[at + 1]
        if marker in _UNKNOWN:  # whether such a segment has a length depends on the decoder
            raise BadMedium(f"the JPEG has a segment of an unknown kind (0x{marker:02X})")
        if marker in _FRAMES:
            if size is not None:
                raise BadMedium("the JPEG has several frames")
            size = int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        if marker == _SCAN:
            break
        if marker == 0xFF or marker in _ALONE:
            at += 1 if marker == 0xFF else 2
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4]))
    if size is None:
        raise BadMedium("the JPEG has no frame")
    return size


def _gif(data: bytes) -> Size:
    """The size of the screen, or of a frame that is larger."""
    if len(data) < 13:
        raise BadMedium("the header of the GIF is cut")
    width, height = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    at = 13 + _colors(data[10])
    frames = 0
    pieces = _pieces(data)
    while at < len(data) and data[at] != 0x3B:
        next(pieces)
        if data[at] == 0x2C and at + 10 <= len(data):
            left, top, wide, high = (int.from_bytes(data[i : i + 2], "little") for i in range(at + 1, at + 9, 2))
            width, height, frames = max(width, left + wide), max(height, top + high), frames + 1
            at += 11 + _colors(data[at + 9])  # with the first byte of the compressed pixels
        elif data[at] == 0x21:
            at += 2
            first = at + 12 if data[at - 1 : at + 12] == b"\xff\x0bNETSCAPE2.0" else at
            if data[at - 1 : at] != b"\xfe" and data[first : first + 1] == b"\0":  # decoders disagree on what follows
                raise BadMedium("the GIF has an extension without data")
        else:  # decoders skip it
            at += 1
            continue
        while at < len(data) and data[at]:
            next(pieces)
            at += 1 + data[at]
        at += 1
    if not frames:
        raise BadMedium("the GIF has no frame")
    return width, height * frames


def _colors(packed: int) -> int:
    """The bytes of a table of colors."""
    return 3 << ((packed & 7) + 1) if packed & 0x80 else 0


def _webp(data: bytes) -> Size:
    if len(data) < 30:
        raise BadMedium("the header of the WebP is cut")
    if data[12:16] != b"VP8X":
        return _webp_frame(data, 12)
    width, height = _three(data, 24) + 1, _three(data, 27) + 1
    at, frames = 12, 0
    pieces = _pieces(data)
    while at + 18 <= len(data):
        next(pieces)
        kind, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        wide = high = 0
        if kind == b"ANMF":
            frames += 1
            wide, high = (2 * _three(data, at + i) + _three(data, at + i + 6) + 1 for i in (8, 11))
            size = 16  # its picture is in chunks of their own
        elif kind in (b"VP8 ", b"VP8L"):
            wide, high = _webp_frame(data, at)
        if wide > width or high > height:
            raise BadMedium("a frame of the WebP is larger than its canvas")
        at += 8 + size + size % 2
    return width, height * max(1, frames)


def _webp_frame(data: bytes, at: int) -> Size:
    """The size of a picture in a chunk of WebP."""
    form, head = data[at : at + 4], data[at + 8 : at + 18]
    if form == b"VP8 " and head[3:6] == b"\x9d\x01\x2a":
        return int.from_bytes(head[6:8], "little") & 0x3FFF, int.from_bytes(head[8:10], "little") & 0x3FFF
    if form == b"VP8L" and head[0] == 0x2F:
        bits = int.from_bytes(head[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    raise BadMedium("the header of the WebP is malformed")


def _three(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 3], "little")


class _Known(NamedTuple):
    """A format: how it begins, and how the size is read; the size is not that of one frame but of all."""

    kind: str
    type: str
    begins: re.Pattern[bytes]
    size: Callable[[bytes], Size] | None = None


def _begins(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


FORMATS: Final = (
    _Known("image", "image/png", _begins(rb"\x89PNG\r\n\x1a\n"), _png),
    _Known("image", "image/jpeg", _begins(rb"\xff\xd8\xff"), _jpeg),
    _Known("image", "image/gif", _begins(rb"GIF8[79]a"), _gif),
    _Known("image", "image/webp", _begins(rb"RIFF....WEBP"), _webp),
    _Known("audio", "audio/wav", _begins(rb"RIFF....WAVE")),
    _Known("audio", "audio/mpeg", _begins(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]")),
    _Known("audio", "audio/flac", _begins(rb"fLaC")),
    _Known("audio", "audio/ogg", _begins(rb"OggS")),
    _Known("audio", "audio/mp4", _begins(rb"....ftypM4A")),
    _Known("video", "video/mp4", _begins(rb"....ftyp(?:iso|mp4|avc1|MSNV|dash|M4V)")),
    _Known("video", "video/quicktime", _begins(rb"....ftypqt  ")),
    _Known("video", "video/webm", _begins(rb"\x1aE\xdf\xa3")),
    _Known("document", PDF, _begins(rb"%PDF-")),
)
"""The formats that are known by their first bytes."""
_BINARY: Final = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that no text contains


def recognize(data: bytes) -> MediaFormat | None:
    """What bytes are; ``None`` if neither a known format nor UTF-8. `BadMedium` if an image's header is malformed."""
    for known in FORMATS:
        if known.begins.match(data):
            width, height = (0, 0) if known.size is None else known.size(data)
            if known.size is not None and not (width and height):
                raise BadMedium("the image has no pixels")
            return MediaFormat(known.kind, known.type, width, height)
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return None if _BINARY.search(data) else MediaFormat("document", "text/plain")
