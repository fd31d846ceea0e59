"""Turns a page of HTML (parsed by Lexbor) into lines of text with numbered links.

This is a separate program, because a hostile page may keep a parser busy for hours, or crash it. It reads the page
from standard input and writes ``{"title": …, "text": …, "links": […]}``. Arguments: the page's URL, and its charset
or ``""``.
"""

import json
import sys
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

_SKIPPED: Final = frozenset(
    ("script", "style", "noscript", "template", "svg", "head", "iframe", "object", "canvas", "select")
)
# fmt: off
_BLOCKS: Final = frozenset((
    "address", "article", "aside", "blockquote", "dd", "details", "dialog", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main",
    "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
))
# fmt: on
_PLAIN: Final = {ord("【"): "〖", ord("】"): "〗", **dict.fromkeys((*range(9), *range(14, 32), *range(127, 160)))}
_HEADINGS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SPACED: Final = frozenset(("p", "table", "pre", *_HEADINGS))
_BEFORE: Final = {"br": "\n", "li": "* ", "td": " | ", "th": " | ", **_HEADINGS}
_LINKS: Final = 2_000  # the most links of a page that are numbered
_LINK: Final = 500  # the most characters of a link's text
_URL: Final = 2_048
"""The most characters of a link's target; a longer one is not numbered. All links share a page's base."""
_MEMORY: Final = 1 << 30  # the most bytes of address space


class PageWriter:
    """Writes a tree as text in document order. It does not recurse, because trees may be deep."""

    def __init__(self, url: str, base: str) -> None:
        self._host = urlsplit(url).netloc
        self._base = base
        self._parts: list[str] = []
        self.links: list[str] = []
        self._open: list[tuple[int, str]] = []
        """For each open link: where its text begins, and its target."""
        self._pre = 0

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def walk(self, root: Any) -> None:
        """Write everything below a node."""
        waiting = [(root, False)]
        while waiting:
            node, leaving = waiting.pop()
            if leaving:
                self._leave(node)
            elif self._enter(node):
                waiting.append((node, True))
                below, found = node.child, []
                while below is not None:
                    found.append((below, False))
                    below = below.next
                waiting += reversed(found)

    def _enter(self, node: Any) -> bool:
        """Write the beginning of a node. Returns whether its children are shown."""
        tag = node.tag
        if tag == "-text":
            self._write(node.text_content or "")
            return False
        if tag in _SKIPPED or not node.is_element_node:
            return False
        if tag in _BLOCKS:
            self._parts.append("\n\n" if tag in _SPACED else "\n")
        self._parts.append(_BEFORE.get(tag, ""))
        if tag == "pre":
            self._pre += 1
        if tag == "img" and (text := node.attributes.get("alt")):
            self._write(f"[image: {text}]")
        if tag == "a":
            self._open.append((len(self._parts), node.attributes.get("href") or ""))
        return True

    def _leave(self, node: Any) -> None:
        """Write the end of a node."""
        tag = node.tag
        if tag == "pre":
            self._pre -= 1
        if tag in _BLOCKS:
            self._parts.append("\n\n" if tag in _SPACED else "\n")
        if tag == "a":
            self._link(*self._open.pop())

    def _link(self, at: int, target: str) -> None:
        text = " ".join("".join(self._parts[at:]).split())[:_LINK]
        try:
            url = urljoin(self._base, target.strip())
            parts = urlsplit(url)
        except ValueError:
            return
        good = text and len(url) <= _URL and parts.scheme in ("http", "https")
        if good and not self._open and len(self.links) < _LINKS:
            there = "" if parts.netloc == self._host else f"†{plain(parts.netloc)}"
            self._parts[at:] = [f"【{len(self.links)}†{text}{there}】"]
            self.links.append(url)

    def _write(self, text: str) -> None:
        text = plain(text)
        if not self._pre and text:
            lead, trail = text[0].isspace(), text[-1].isspace()
            text = " ".join(text.split())
            text = (" " if lead else "") + text + (" " if trail and text else "")
        self._parts.append(text)


def plain(text: str) -> str:
    """The text without control characters, and without the brackets that only the browser may write."""
    return text.translate(_PLAIN)


def main() -> None:
    from selectolax.lexbor import LexborHTMLParser

    url, charset = sys.argv[1:]
    sys.setrecursionlimit(1_000)
    with suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    body = sys.stdin.buffer.read()
    tree: Any
    try:
        # The encoding comes from the server; without one, Lexbor looks for the page's own declaration.
        tree = LexborHTMLParser(body.decode(charset, "replace") if charset else body)
    except LookupError:
        tree = LexborHTMLParser(body.decode("utf-8", "replace"))
    titled, base = tree.css_first("title"), tree.css_first("base[href]")
    title = " ".join(plain(titled.text()).split())[:200] if titled is not None else ""
    named = (base.attributes.get("href") or "") if base is not None else ""
    writer = PageWriter(url, urljoin(url, named if len(named) <= _URL else ""))
    if tree.body is not None:
        writer.walk(tree.body)
    sys.stdout.buffer.write(json.dumps({"title": title, "text": writer.text, "links": writer.links}).encode())


if __name__ == "__main__":
    main()
