"""`unspool serve` as an operator starts it: in a process of its own."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from .support import PATIENCE, until

SERVE = (sys.executable, "-m", "unspool", "serve")


class Process:
    """A running command, which ends with its context.

    Attributes:
        lines: the lines of its log so far.
        url: its address; empty if it does not start.
    """

    ends_with = signal.SIGTERM

    def __init__(self, *arguments: str, command: Sequence[str] = SERVE, cwd: Path | None = None) -> None:
        line = [*command, "--port", "0", *arguments]
        self.process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, cwd=cwd)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr or ()), daemon=True)
        self._reader.start()
        until(lambda: self.url or self.process.poll() is not None, 10 * PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        assert self.process.stderr is not None
        self.process.stderr.close()

    @property
    def url(self) -> str:
        found = re.search(r"listening on (https?://[0-9.:]+)", "".join(self.lines))
        return found[1] if found else ""

    @property
    def port(self) -> int:
        assert self.url, self.lines
        return int(self.url.rpartition(":")[2])

    def logged(self) -> list[Any]:
        """The lines of a log of JSON."""
        return [json.loads(line) for line in self.lines]

    def end(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(self.ends_with)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code
