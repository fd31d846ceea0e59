"""Media are recognized by their first bytes, and images are measured by their headers alone."""

import struct
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


SOF = b"\xff\xc1\x00\x11\x08\x00\x01\x00\x01\x03" + bytes(9)
SOS = b"\xff\xda\x00\x08" + bytes(6)
JPEG, GIF, WEBP = jpeg()[:-3], gif()[:-1], webp()
FRAME = gif(frame=(70, 50))[19:-1]


def chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def anmf(width: int, height: int, left: int = 0) -> bytes:
    sizes = (left // 2, 0, width - 1, height - 1, 0)
    return chunk(b"ANMF", b"".join(size.to_bytes(3, "little") for size in sizes) + b"\0")


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (JPEG + bytes(10) + SOS + SOF, (4, 3)),
        (b"\xff\xd8\xff\x00\xff\xe0\x00\x04ab\x00\x07" + JPEG[2:] + bytes(10) + SOS, (4, 3)),
        (GIF + b"\x55\x00" + FRAME + b"\x3b", (70, 100)),
        (GIF + b"\x3b" + FRAME, (4, 3)),
        (GIF + b"\x21\xfe\0" + FRAME, (70, 100)),
        (GIF + b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0" + FRAME, (70, 100)),
        (WEBP + chunk(b"XMP ", b"ANMF" * 9), (4, 3)),
        (WEBP + anmf(4, 3) + chunk(b"VP8 ", webp(form=b"VP8 ")[20:]) + anmf(2, 3, left=2), (4, 6)),
        (png()[:33] + struct.pack(">I", 8) + b"acTL" + struct.pack(">II", 7, 0) + bytes(4) + png()[33:], (4, 21)),
    ],
)
def test_an_image_has_as_many_pixels_as_decoders_may_read(data: bytes, size: tuple[int, int]) -> None:
    found = recognize(data)
    assert found is not None
    assert (found.width, found.height) == size


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (JPEG + bytes(10) + SOF + SOS, "several frames"),
        (jpeg()[:2] + SOF + jpeg()[2:], "several frames"),
        (JPEG + bytes(10) + b"\x00\x00" + SOF, "several frames"),
        (JPEG[:2] + b"\xff\xf0\x00\x20" + JPEG[2:], "unknown kind"),
        (JPEG[:2] + b"\xff\xc8\x00\x20" + JPEG[2:], "unknown kind"),
        (GIF + b"\x21\xf9\0" + FRAME, "extension without data"),
        (GIF + b"\x21\xff\x0bNETSCAPE2.0\0" + FRAME, "extension without data"),
        (WEBP + chunk(b"VP8 ", webp(5, 3, form=b"VP8 ")[20:]), "larger than its canvas"),
        (WEBP + chunk(b"VP8L", webp(4, 4, form=b"VP8L")[20:]), "larger than its canvas"),
        (WEBP + anmf(4, 3, left=2), "larger than its canvas"),
        (WEBP + anmf(4, 3) + chunk(b"VP8 ", webp(5, 3, form=b"VP8 ")[20:]), "larger than its canvas"),
    ],
)
def test_an_image_of_which_decoders_may_read_more_pixels_than_it_says_is_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(BadMedium, match=reason):
        recognize(data)


@pytest.mark.parametrize(
    "data",
    [
        png()[:33] + bytes(1_000_000),
        b"\xff\xd8" + b"\xff" * 1_000_000,
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 250_000,
        b"\xff\xd8" + b"\xff\xd0" * 500_000,
        gif()[:-1] + gif()[19:-1] * 20_000,
        gif()[:-1] + b"\x21\xf9" + b"\x01a" * 500_000,
        gif()[:-1] + b"\x99" * 1_000_000,
        WEBP + chunk(b"none", b"") * 125_000,
    ],
)
def test_only_so_many_pieces_are_looked_at_as_encoders_write(data: bytes) -> None:
    began = time.process_time()
    with pytest.raises(BadMedium, match="too many pieces"):
        recognize(data)
    assert time.process_time() - began < 1


def test_as_many_pieces_as_encoders_write_are_no_fault() -> None:
    colors = b"\xff" + bytes(255)
    scan = GIF + FRAME[:-1] + colors * 60_000 + b"\0"
    packed = png()[:33] + (struct.pack(">I", 256) + b"IDAT" + bytes(260)) * 40_000 + png()[-12:]
    for data in (scan, packed):
        assert recognize(data) is not None
