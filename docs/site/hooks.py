"""What the site needs beside its pages: links to files of the repository lead to its home."""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<=\]\()(?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]+)?(?=\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Turn links that leave the folder of the pages into addresses in the repository."""

    def repository(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), link["path"]))
        if path.startswith("docs/"):
            return link[0]
        return f"{config.repo_url}/blob/main/{path}{link['anchor'] or ''}"

    return _LINK.sub(repository, markdown)
