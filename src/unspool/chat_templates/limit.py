"""The limits of a child process. Scripts load this file by its path, because they import nothing of unspool."""

import contextlib
import sys


def limit(**most: int) -> None:
    """Limit this process, by the names in `resource`, such as ``RLIMIT_AS``."""
    if sys.platform != "win32":  # on Windows only the parent's time limit applies
        import resource

        for name, value in most.items():
            # A stricter existing limit stays, even on systems that refuse one of these.
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (value, value))
