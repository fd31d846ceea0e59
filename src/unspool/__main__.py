"""The command ``unspool``, which is also ``python -m unspool``."""

import sys


def main() -> int:
    """Run the command line. Ctrl-C ends it quietly, also while its modules are imported."""
    try:
        from .cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
