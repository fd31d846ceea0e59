"""Settings that hold for all tests."""

from hypothesis import settings

# Machines that run tests are slow at times; what must be fast has a test of its own.
settings.register_profile("unspool", deadline=None, print_blob=True)
settings.load_profile("unspool")
