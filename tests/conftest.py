"""Settings that hold for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from .transitions import recorded

# Machines that run tests are slow at times; what must be fast has a test of its own.
settings.register_profile("unspool", deadline=None, print_blob=True)
settings.load_profile("unspool")


@pytest.fixture(scope="session", autouse=True)
def table_of_states() -> Iterator[None]:
    """Whatever a test does, the machine changes its state only as its table says."""
    with recorded():
        yield
