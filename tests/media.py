"""Small images, sounds and videos for tests, written byte by byte."""

import base64
import struct
import zlib
from hashlib import sha256
from typing import Any


def png(width: int = 4, height: int = 3, color: int = 0, *, frames: int = 0, headers: int = 1) -> bytes:
    """A whole PNG in one shade of gray; with frames, the headers of an animation."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([color]) * width) * height) if width * height < 1 << 20 else b""
    animation = chunk(b"fcTL", bytes(26)) * frames
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) * headers + animation + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def jpeg(width: int = 4, height: int = 3) -> bytes:
    """The headers of a JPEG, with a thumbnail of another size in its first segment."""
    thumbnail = b"\xff\xd8\xff\xc0\x00\x11\x08" + struct.pack(">HH", 1, 1)
    exif = b"\xff\xe1" + struct.pack(">H", 2 + len(thumbnail)) + thumbnail
    return b"\xff\xd8" + exif + b"\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03\xff\xd9"


def gif(width: int = 4, height: int = 3, frames: int = 1, frame: tuple[int, int] = (4, 3)) -> bytes:
    """A GIF whose frames have no pixels."""
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    one = b"\x21\xf9\x04" + bytes(4) + b"\0" + b"\x2c" + struct.pack("<HHHHB", 0, 0, *frame, 0) + b"\x02\x01\x3b\0"
    return screen + one * frames + b"\x3b"


def webp(width: int = 4, height: int = 3, form: bytes = b"VP8X") -> bytes:
    """The header of a WebP in one of its three forms."""
    if form == b"VP8 ":
        data = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    elif form == b"VP8L":
        data = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + bytes(5)
    else:
        data = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBP" + form + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def wav() -> bytes:
    """A WAV of four samples."""
    form = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", 8) + bytes(8)
    return b"RIFF" + struct.pack("<I", len(body)) + body


MP4 = b"\0\0\0\x18ftypisom\0\0\0\0isommp42"


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url(data: bytes, type: str = "image/png") -> str:
    return f"data:{type};base64,{base64_of(data)}"


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def part(data: bytes, kind: str = "image", type: str = "image/png") -> dict[str, Any]:
    """The form of a medium in messages for engines."""
    return {"type": kind, "sha256": digest(data), "media_type": type}
