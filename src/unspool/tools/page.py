"""Pages as lines of text with numbered links. HTML is read in a child process, see `page_reader`."""

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from .fetch import Fetched, Refused

__all__ = ["WIDTH", "Page", "plain", "read_page", "wrapped"]

WIDTH: Final = 80
"""Characters of a line, which citations count."""
_READER: Final = Path(__file__).with_name("page_reader.py")
_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXT: Final = ("application/json", "application/xml")


class Page(msgspec.Struct, frozen=True):
    """What a browser shows.

    Attributes:
        url, title: of the page.
        lines: its text, in lines of at most `WIDTH` characters.
        links: where its numbered links lead.
    """

    url: str
    title: str
    lines: tuple[str, ...]
    links: tuple[str, ...] = ()


class _Read(msgspec.Struct):
    title: str
    text: str
    links: list[str]


async def read_page(fetched: Fetched, time: float) -> Page:
    """A page that was fetched, read within so many seconds.

    Raises:
        Refused: it is not text, or cannot be read in time.
    """
    if fetched.kind in _HTML:
        read = await _html(fetched, time)
        return Page(fetched.url, read.title or fetched.url, tuple(_lines(read.text)), tuple(read.links))
    if fetched.kind.startswith("text/") or fetched.kind in _TEXT or fetched.kind.endswith("+json"):
        try:
            text = fetched.body.decode(fetched.charset or "utf-8", "replace")
        except LookupError:
            text = fetched.body.decode("utf-8", "replace")
        return Page(fetched.url, fetched.url, tuple(wrapped(plain(text))))
    raise Refused(f"{fetched.url} is {fetched.kind}, which is not text")


def wrapped(text: str) -> Iterator[str]:
    """The text's lines, those that are too long at several lines."""
    for line in text.splitlines():
        if len(line) <= WIDTH:
            yield line
        else:
            yield from textwrap.wrap(line, WIDTH, break_on_hyphens=False) or ("",)


def plain(text: str) -> str:
    """The text without what only the browser writes: the brackets of links and citations."""
    return text.replace("【", "〖").replace("】", "〗")


def _lines(text: str) -> Iterator[str]:
    """Lines without more than one empty line in a row."""
    empty = True
    for line in wrapped(text):
        line = line.rstrip()
        if line or not empty:
            yield line
        empty = not line


async def _html(fetched: Fetched, time: float) -> _Read:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(_READER), fetched.url, fetched.charset),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(time):
            output, _ = await process.communicate(fetched.body)
    except TimeoutError:
        raise Refused(f"{fetched.url} cannot be read within {time:g} seconds") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(asyncio.ensure_future(process.wait()))
    try:
        return msgspec.json.decode(output, type=_Read)
    except msgspec.DecodeError:
        raise Refused(f"{fetched.url} cannot be read") from None
