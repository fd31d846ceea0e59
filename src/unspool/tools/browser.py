"""A browser for models: ``search``, ``open`` and ``find``, in the form that gpt-oss was trained on.

A page's number is its cursor; lines are numbered as in ``L0:``, links as in ``【0†text†host】``, and an answer cites
``【cursor†L3-L5】``. See https://developers.openai.com/cookbook/articles/openai-harmony (its built-in tools).
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote_plus, urlsplit

import msgspec

from .addresses import AddressRefused
from .base import ServerTool, Source, ToolLimits, ToolResult, own_tool, read_arguments, refused
from .fetch import Fetcher
from .page import Page, read_page, wrapped
from .page_reader import plain

_PAGES: Final = 64  # the most pages that one session keeps
_FOUND: Final = 50
_AROUND: Final = 4  # how many lines are shown from a match on
_RESULTS: Final = 10


class _Result(msgspec.Struct):
    url: str
    title: str = ""
    content: str | None = ""


class _Results(msgspec.Struct):
    results: list[_Result]


def browser_tools(server: str) -> tuple[ServerTool, ...]:
    text, number = {"type": "string"}, {"type": "integer"}
    return (
        own_tool(
            server,
            "browser.search",
            "Search the web for `query`; `topn` results are shown.",
            {"query": text, "topn": {**number, "default": _RESULTS}},
            ["query"],
        ),
        own_tool(
            server,
            "browser.open",
            "Open the link `id` of the page `cursor` (of the latest, without one), or `id` as a URL; without `id`, "
            "scroll the page itself. Shows `num_lines` lines from line `loc`. Cite as 【cursor†L1-L2】.",
            {"id": {"type": ["integer", "string"]}, "cursor": number, "loc": number, "num_lines": number},
            [],
        ),
        own_tool(
            server,
            "browser.find",
            "Find the places where `pattern` occurs in the page `cursor` (in the latest, without one).",
            {"pattern": text, "cursor": number},
            ["pattern"],
        ),
    )


class Browser:
    """The pages of one response; ``search`` is the URL of a search provider with SearXNG's API, or ``None``."""

    def __init__(self, fetcher: Fetcher, search: str | None, limits: ToolLimits) -> None:
        self._fetcher = fetcher
        self._search = search
        self._limits = limits
        self._pages: list[Page] = []

    async def call(self, tool: ServerTool, arguments: str) -> ToolResult:
        read = read_arguments(arguments)
        if isinstance(read, ToolResult):
            return read
        work = {"search": self._searched, "open": self._opened, "find": self._found}[tool.original.partition(".")[2]]
        try:
            return await work(read)
        except AddressRefused as why:
            return refused(f"The browser cannot do that: {why}.")

    async def _searched(self, given: dict[str, Any]) -> ToolResult:
        query = _string(given, "query")
        if self._search is None:
            raise AddressRefused("no search provider is set up on this server; open a URL instead")
        join = "&" if "?" in self._search else "?"
        url = f"{self._search}{join}q={quote_plus(query)}&format=json"
        fetched = await self._fetcher.fetch(url, trusted=True)
        try:
            found = msgspec.json.decode(fetched.body, type=_Results).results
        except msgspec.DecodeError:
            raise AddressRefused("the search provider's answer is malformed") from None
        lines: list[str] = []
        links: list[str] = []
        for result in found[: max(1, min(_integer(given, "topn", _RESULTS), _FOUND))]:
            try:
                host = urlsplit(result.url).netloc
            except ValueError:  # a link that could not be opened
                continue
            title = " ".join(plain(result.title or result.url).split())
            lines.append(f"【{len(links)}†{title}†{plain(host)}】")
            lines += [*wrapped(" ".join(plain(result.content or "").split())), ""]
            links.append(result.url)
        page = Page("", f"Results for: {plain(query)}", tuple(lines or ["Nothing was found."]), tuple(links))
        return self._shown(self._kept(page), 0, -1)

    async def _opened(self, given: dict[str, Any]) -> ToolResult:
        target = given.get("id", -1)
        cursor = self._cursor(given)
        loc, count = _integer(given, "loc", -1), _integer(given, "num_lines", -1)
        if isinstance(target, str) and not target.strip().lstrip("-").isdigit():
            url = target.strip()
            url = url if "://" in url else f"https://{url}"
        elif _integer(given, "id", -1) < 0:
            return self._shown(self._checked(cursor), max(0, loc), count)
        else:
            links = self._pages[self._checked(cursor)].links
            number = int(target)
            if number >= len(links):
                raise AddressRefused(f"the page {cursor} has no link {number}")
            url = links[number]
        page = await read_page(await self._fetcher.fetch(url), self._limits.time)
        return self._shown(self._kept(page), max(0, loc), count)

    async def _found(self, given: dict[str, Any]) -> ToolResult:
        pattern = _string(given, "pattern")
        cursor = self._checked(self._cursor(given))
        page = self._pages[cursor]
        wanted = pattern.lower()
        lines: list[str] = []
        last = -1
        for at, line in enumerate(page.lines):
            if wanted in line.lower() and at > last and len(lines) < _FOUND * _AROUND:
                last = min(at + _AROUND, len(page.lines)) - 1
                lines += [f"# L{at}", *page.lines[at : last + 1], ""]
        text = f"Places of {plain(pattern)!r} in [{cursor}] {page.title} (cite that page's lines)"
        found = Page(page.url, text, tuple(lines or ["It does not occur there."]))
        return self._shown(self._kept(found), 0, -1)

    def _kept(self, page: Page) -> int:
        if len(self._pages) >= _PAGES:
            raise AddressRefused(f"no more than {_PAGES} pages may be open")
        self._pages.append(page)
        return len(self._pages) - 1

    def _cursor(self, given: dict[str, Any]) -> int:
        cursor = _integer(given, "cursor", -1)
        return cursor if cursor >= 0 else len(self._pages) - 1

    def _checked(self, cursor: int) -> int:
        if not 0 <= cursor < len(self._pages):
            raise AddressRefused("no page is open" if not self._pages else f"there is no page {cursor}")
        return cursor

    def _shown(self, cursor: int, first: int, count: int) -> ToolResult:
        """Lines of a page, as many as are wanted and fit into a result."""
        page = self._pages[cursor]
        total = len(page.lines)
        if total and first >= total:
            raise AddressRefused(f"the page has the lines 0 to {total - 1}")
        head = f"[{cursor}] {page.title}" + (f" ({page.url})" if page.url and page.url != page.title else "")
        room = self._limits.output - len(head) - 100
        lines: Sequence[str] = page.lines[first : first + count if count > 0 else total]
        shown: list[str] = []
        for at, line in enumerate(lines, first):
            text = f"L{at}: {line}"
            room -= len(text) + 1
            if room < 0:
                break
            shown.append(text)
        last = first + len(shown) - 1
        text = "\n".join((head, f"**viewing lines [{first} - {max(first, last)}] of {max(0, total - 1)}**", "", *shown))
        sources = (Source(cursor=cursor, url=page.url, title=page.title),) if page.url else ()
        return ToolResult(text=text[: self._limits.output], sources=sources)


def _string(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise AddressRefused(f"{key} must be a text that is not empty")
    return value


def _integer(given: dict[str, Any], key: str, default: int) -> int:
    value = given.get(key, default)
    try:
        return default if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        raise AddressRefused(f"{key} must be a whole number") from None
