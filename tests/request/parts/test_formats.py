"""Media are recognized by their first bytes, and images are measured by their headers alone."""

import contextlib
import time

import pytest

from tests.media import MP4, gif, jpeg, png, wav, webp
from unspool.request.parts.formats import BadMedium, recognize


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (png(), ("image", "image/png", 4, 3)),
        (png(frames=5), ("image", "image/png", 4, 15)),
        (png(70_000, 2), ("image", "image/png", 70_000, 2)),
        (jpeg(), ("image", "image/jpeg", 4, 3)),
        (gif(), ("image", "image/gif", 4, 3)),
        (gif(1, 1, frame=(9, 7)), ("image", "image/gif", 9, 7)),
        (gif(frames=5), ("image", "image/gif", 4, 15)),
        *((webp(form=form), ("image", "image/webp", 4, 3)) for form in (b"VP8 ", b"VP8L", b"VP8X")),
        (webp(16_777_216, 1), ("image", "image/webp", 16_777_216, 1)),
        (wav(), ("audio", "audio/wav", 0, 0)),
        (b"ID3\x04", ("audio", "audio/mpeg", 0, 0)),
        (b"\xff\xfb\x90", ("audio", "audio/mpeg", 0, 0)),
        (b"fLaC", ("audio", "audio/flac", 0, 0)),
        (b"OggS", ("audio", "audio/ogg", 0, 0)),
        (MP4, ("video", "video/mp4", 0, 0)),
        (b"\x1aE\xdf\xa3\x9f", ("video", "video/webm", 0, 0)),
        ("Grüße\n\tan alle".encode(), ("document", "text/plain", 0, 0)),
        (b"", ("document", "text/plain", 0, 0)),
    ],
)
def test_a_format_is_told_by_its_first_bytes(data: bytes, found: tuple[str, str, int, int]) -> None:
    assert recognize(data) == found


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"\x7fELF\x02", b"BM\0\0", b"\xff\xff\xff", b"MZ\0", b"<svg>\0"])
def test_anything_else_is_nothing(data: bytes) -> None:
    assert recognize(data) is None


@pytest.mark.parametrize("whole", [png(), jpeg(), gif(), *(webp(form=form) for form in (b"VP8 ", b"VP8L", b"VP8X"))])
def test_a_cut_header_is_malformed_wherever_it_is_cut(whole: bytes) -> None:
    kind = recognize(whole)
    for size in range(12, len(whole)):
        try:
            found = recognize(whole[:size])
        except BadMedium:
            continue
        assert found is None or found == kind


@pytest.mark.parametrize(
    "data", [png(0, 3), png(headers=2), jpeg(0, 3), gif(0, 0, frame=(0, 0)), gif(frames=0), b"\xff\xd8\xff\xd9"]
)
def test_an_image_without_pixels_or_with_several_headers_is_malformed(data: bytes) -> None:
    with pytest.raises(BadMedium):
        recognize(data)


@pytest.mark.parametrize(
    "data",
    [
        png()[:33] + bytes(1_000_000),
        b"\xff\xd8" + b"\xff" * 1_000_000,
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 250_000,
        b"\xff\xd8" + b"\xff\xd0" * 500_000,
        gif()[:-1] + b"\x21\xf9\0" * 330_000,
        gif()[:-1] + b"\x21\xf9" + b"\x01a" * 500_000,
    ],
)
def test_a_header_without_end_takes_linear_time(data: bytes) -> None:
    began = time.process_time()
    with contextlib.suppress(BadMedium):
        recognize(data)
    assert time.process_time() - began < 10
