"""Pages as lines of text with numbered links. A child process reads HTML; see `page_reader`."""

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from . import page_reader
from .addresses import AddressRefused
from .fetch import Fetched
from .page_reader import plain

WIDTH: Final = 80  # the most characters of a line. Citations count these lines.
_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXT: Final = ("application/json", "application/xml")
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CHARSETS: Final = (
    *("utf-8", "utf-16", "ascii", "iso8859", "iso2022", "cp", "koi8", "mac"),
    *("gb", "hz", "big5", "euc", "shift"),
)
"""The prefixes of allowed codecs' names. Python has other codecs, and some of them take quadratic time."""


class Page(msgspec.Struct, frozen=True):
    """A page as a browser shows it, in lines of at most `WIDTH` characters, with the targets of its numbered links."""

    url: str
    title: str
    lines: tuple[str, ...]
    links: tuple[str, ...] = ()


class _PageText(msgspec.Struct):
    title: str
    text: str
    links: list[str]


async def read_page(fetched: Fetched, time: float) -> Page:
    """Read a fetched page, within this many seconds; `AddressRefused` if it is not text, or cannot be read in time."""
    if fetched.kind in _HTML:
        read = await _html(fetched, time)
        return Page(fetched.url, read.title or fetched.url, tuple(_lines(read.text)), tuple(read.links))
    if fetched.kind.startswith("text/") or fetched.kind in _TEXT or fetched.kind.endswith("+json"):
        text = fetched.body.decode(_charset(fetched) or "utf-8", "replace")
        return Page(fetched.url, fetched.url, tuple(wrapped(plain(text))))
    raise AddressRefused(f"{fetched.url} is {fetched.kind}, which is not text")


def _charset(fetched: Fetched) -> str:
    """The codec of a page: from its byte order mark, else from its server; empty if none is known."""
    named = next((name for mark, name in _MARKS if fetched.body.startswith(mark)), fetched.charset)
    try:
        name = codecs.lookup(named).name if named else ""
    except (LookupError, ValueError):
        return ""
    return name if name.startswith(_CHARSETS) else ""


def wrapped(text: str) -> Iterator[str]:
    """The text's lines, with lines that are too long split; in linear time."""
    for line in text.splitlines():
        at = 0
        while len(line) - at > WIDTH:
            space = line.rfind(" ", at, at + WIDTH + 1)
            end = space if space > at else at + WIDTH
            yield line[at:end]
            at = end + (end == space)
        yield line[at:]


def _lines(text: str) -> Iterator[str]:
    """The lines, with runs of empty lines made one."""
    empty = True
    for line in wrapped(text):
        line = line.rstrip()
        if line or not empty:
            yield line
        empty = not line


async def _html(fetched: Fetched, time: float) -> _PageText:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", page_reader.__file__, fetched.url, _charset(fetched)),
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
        raise AddressRefused(f"{fetched.url} cannot be read within {time:g} seconds") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(asyncio.ensure_future(process.wait()))
    try:
        return msgspec.json.decode(output, type=_PageText)
    except msgspec.DecodeError:
        raise AddressRefused(f"{fetched.url} cannot be read") from None
