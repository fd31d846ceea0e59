"""`Medium`: an image, a sound or a video with its place in a prompt."""

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

MEDIA: Final = ("image", "audio", "video")  # the kinds of parts that a prompt has placeholders for
_STEP: Final = 3 * 64 * 1024  # a multiple of three, as base64 is encoded
FOLDER: Final = "media"  # the folder of the bytes of recorded media, beside the recordings


class Medium(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message that is not text. In messages it is ``{"type": KIND, "sha256": DIGEST, "media_type": TYPE}``.

    Attributes:
        kind: one of `MEDIA`.
        type: its media type, such as ``image/png``, by its first bytes.
        data: its bytes.
        sha256: their digest in hexadecimal.
        width, height: of images in pixels, else 0.
        role: the role of the message that it belongs to.
        where: the field of the request that has its bytes or its URL; empty if a tool returned it.
        start, end: where the prompt's text has its placeholder.
    """

    kind: str
    type: str
    data: bytes
    sha256: str
    width: int = 0
    height: int = 0
    role: str = ""
    where: str = ""
    start: int = 0
    end: int = 0

    @property
    def part(self) -> dict[str, Any]:
        """Its form in messages."""
        return {"type": self.kind, "sha256": self.sha256, "media_type": self.type}

    @property
    def placed(self) -> "PlacedMedium":
        """Its place in the prompt, and its digest."""
        return PlacedMedium(self.kind, self.type, self.sha256, self.start, self.end)

    @property
    def tokens(self) -> int:
        """About how many tokens an image costs, by Anthropic's rule: one for 750 pixels; 0 for other kinds."""
        return -(-self.width * self.height // 750)

    @property
    def base64(self) -> str:
        """Its bytes in base64, encoded in steps, between which other threads may run."""
        steps = range(0, len(self.data), _STEP)
        return "".join(base64.b64encode(self.data[at : at + _STEP]).decode() for at in steps)

    @property
    def url(self) -> str:
        """Its bytes as a ``data:`` URL."""
        return f"data:{self.type};base64,{self.base64}"


class PlacedMedium(msgspec.Struct, frozen=True, omit_defaults=True):
    """A medium in a recording; see `Medium`. Its bytes are in the file `path`, or in ``url``, a ``data:`` URL."""

    kind: str
    type: str
    sha256: str
    start: int = 0
    end: int = 0
    url: str = ""

    @property
    def path(self) -> str:
        """The path of its bytes, seen from the folder of the recording."""
        return f"{FOLDER}/{self.sha256}.{self.type.partition('/')[2]}"


def is_medium(part: Any) -> bool:
    """Whether a part of a message is a medium."""
    return isinstance(part, dict) and part.get("type") in MEDIA and "sha256" in part


def placed(prompt: str, media: Sequence[Medium], write: Callable[[int], str]) -> str:
    """A prompt with other placeholders for its media: ``write`` makes that of the medium with an index."""
    pieces, at = [], 0
    for i, medium in enumerate(media):
        pieces += [prompt[at : medium.start], write(i)]
        at = medium.end
    return "".join((*pieces, prompt[at:]))
