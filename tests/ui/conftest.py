"""A real browser, connected to a real server."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ..chromium import chromium

SHOTS = os.environ.get("UI_SHOTS")
"""A folder for screenshots, for people to look at."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


class Visit:
    """A page in the browser.

    Attributes:
        faults: the errors of its console and its scripts.
        hosts: the hosts that it connected to.
    """

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(20_000)
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", lambda m: self.faults.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page.on("dialog", lambda dialog: self.faults.append(f"a dialog: {dialog.message}"))

    def shot(self, name: str, *, whole: bool = True) -> None:
        """Take a screenshot if a folder for them is set."""
        if SHOTS:
            self.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=whole)


@pytest.fixture
def visit(browser: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A page on a desktop in English, unless the test's parameter says otherwise. It must have no faults."""
    options = {"locale": "en-US", "viewport": {"width": 1360, "height": 900}, **getattr(request, "param", {})}
    context = browser.new_context(accept_downloads=True, **options)
    found = Visit(context)
    yield found
    context.close()
    unexpected = [fault for fault in found.faults if "Failed to load resource" not in fault]
    assert unexpected == []
