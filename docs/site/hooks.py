"""What the site needs beside its pages.

Links to files of the repository lead to its home, and no page asks another host for anything.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data)=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preconnect|preload|dns-prefetch))[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>"
)
"""What a browser would load from another host."""
_ASKING = ('class="mermaid"', 'data-md-component="source"')
"""What the theme's own script would load something for: Mermaid from a CDN, stars from GitHub."""
_LINK = re.compile(r"(?<=\]\()(?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]+)?(?=\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Turn links that leave the folder of the pages into addresses in the repository."""

    def repository(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), link["path"]))
        if path.startswith("docs/"):
            return link[0]
        if not Path(config.config_file_path).parent.joinpath(path).exists():
            raise PluginError(f"{page.file.src_uri}: {link['path']} leads to nothing in the repository")
        return f"{config.extra['repository']}/blob/main/{path}{link['anchor'] or ''}"

    return _LINK.sub(repository, markdown)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Refuse a page that would ask another host for anything."""
    found = _ELSEWHERE.search(output)
    asking = found[0] if found else next((sign for sign in _ASKING if sign in output), None)
    if asking is not None:
        raise PluginError(f"{page.file.src_uri}: asks another host: {asking}")
    return output
