"""Where the templates are, for all tests of this folder."""

from pathlib import Path

import pytest

from .sources import folders


@pytest.fixture(scope="session")
def templates(request: pytest.FixtureRequest) -> dict[str, Path]:
    """The folders of templates."""
    assert request.config.cache is not None
    return folders(Path(request.config.cache.mkdir("templates")))
