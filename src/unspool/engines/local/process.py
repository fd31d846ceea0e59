"""`LlamaProcess`: llama.cpp's server in a supervised child process on a port of this machine."""

import contextlib
import http.client
import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

import msgspec

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("unspool.engines")

_CHILD: Final = Path(__file__).with_name("child.py")
_STEADY: Final = 30.0  # seconds after which the process is started again at once
_LONGEST_PAUSE: Final = 30.0
_KEPT: Final = 1 << 16  # how many bytes of the end of a log are looked at
_ENDING: Final = 5.0  # seconds for the process to end by itself
_CHECK: Final = 5.0  # seconds between two questions whether it still answers, and for an answer
_SILENT: Final = 30.0  # seconds without an answer after which it is ended: it hangs, or was stopped
_IDLE: Final = 60.0  # seconds without any work after which it is ended while it loads
_PROC: Final = "/proc"
_PREFIX: Final = re.compile(r"^[\d.]+ [EWI] +(?:\S+ +\S+: )?")
"""What llama.cpp writes before a message: the time, the level, and the part and function."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    # model, adapters: the paths of the GGUF, and of LoRA adapters, each with its scale.
    model: str
    adapters: Sequence[tuple[str, float]] = ()
    fields: Mapping[str, Any] = {}  # values by the names of xllamacpp's ``CommonParams``, with dots for inner ones
    given: Sequence[tuple[str, str]] = ()  # pairs of such a name and a text, from the operator; they come last
    log: str | None = None  # the file for llama.cpp's log; by default one in a temporary folder


class Address(msgspec.Struct, frozen=True):
    """Where the process is reached, also by other processes of the same command: its base URL, the key that it demands,
    the folder with its status, and the file with its log and that file's number."""

    url: str
    key: str
    folder: str
    log: str
    inode: int = 0

    def status(self) -> "Status":
        try:
            return msgspec.json.decode((Path(self.folder) / _STATUS).read_bytes(), type=Status)
        except OSError:
            return Status(state="ended", fault="llama.cpp has ended")

    def ask(self, method: str, path: str, seconds: float, body: str | None = None) -> bytes:
        """The body of llama.cpp's answer to a request; an `OSError` or `HTTPException` if there is none. It blocks."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        try:
            connection.request(method, path, body, headers)
            return connection.getresponse().read()
        finally:
            connection.close()

    def logged(self) -> int:
        """The size of the log in bytes; negative if it is another file by now, as when logs are rotated."""
        with contextlib.suppress(OSError):
            found = os.stat(self.log)
            return found.st_size if found.st_ino == self.inode else -1
        return -1

    def may_have_logged(self, words: str, since: int) -> bool:
        """Whether words were logged since the log had this size, or may have been: it was rotated, or is long."""
        size = self.logged()
        return not 0 <= since <= size <= since + _KEPT or words in self.end_of_log(since)

    def end_of_log(self, since: int) -> str:
        """The end of what was written to the log since it had this size."""
        with contextlib.suppress(OSError), open(self.log, "rb") as file:
            file.seek(max(since, file.seek(0, 2) - _KEPT))
            return file.read(_KEPT).decode(errors="replace")
        return ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the process: ``loading``, ``ready``, ``ended`` (it will be started again), or ``failed`` (it will
    not); how often it has ended, the last time by which signal (0: none), and why it is not ready, for clients."""

    state: str
    deaths: int = 0
    signal: int = 0
    fault: str = ""


_STATUS: Final = "status.json"
_FOLDER: Final = "unspool-llama-"
_LOCK: Final = "owned"


class LlamaProcess:
    """Starts the process, starts it again when it ends, and ends it.

    The process reads a pipe from this one and ends with it. Its port is chosen once and kept. One that does not answer
    is ended. ``failed`` is called, in another thread, with a sentence if the model cannot be loaded at all.
    """

    def __init__(self, launch: Launch, failed: Callable[[str], None] = lambda fault: None) -> None:
        self._launch = launch
        self._failed = failed
        if fcntl is not None:
            _remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(prefix=_FOLDER, ignore_cleanup_errors=True)
        self._owned = _owned(Path(self._folder.name)) if fcntl is not None else None
        # Kept for as long as this lives, so that no other user's process can listen there between two starts.
        self._hold = socket.socket()
        self._reuse = hasattr(socket, "SO_REUSEPORT") and sys.platform != "win32"
        if self._reuse:
            self._hold.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._hold.bind(("127.0.0.1", 0))
        self._port = int(self._hold.getsockname()[1])
        if not self._reuse:
            self._hold.close()
        path = launch.log or str(Path(self._folder.name) / "llama.log")
        self._log = open(path, "ab")  # noqa: SIM115 - closed with this
        inode = os.fstat(self._log.fileno()).st_ino
        self.address = Address(f"http://127.0.0.1:{self._port}", secrets.token_hex(16), self._folder.name, path, inode)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._deaths = 0
        self._tell(Status(state="loading", fault="the model is loading"))
        self._thread = threading.Thread(target=self._watch, name="llama.cpp", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the process; further calls do nothing."""
        with self._lock:
            first, process = not self._closing.is_set(), self._process
            self._closing.set()
        if not first:
            return
        if process is not None:
            _end(process)
        if self._thread.is_alive():
            self._thread.join()
        self._log.close()
        self._hold.close()
        if self._deaths and self._launch.log is None and self.address.end_of_log(0):
            with contextlib.suppress(OSError):
                name = f"{Path(self._folder.name).name}.log"
                kept = shutil.copy(self.address.log, Path(tempfile.gettempdir()) / name)
                log.warning("llama.cpp's log is kept in %s", kept)
        if self._owned is not None:
            self._owned.close()
        self._folder.cleanup()

    # -- in its own thread -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        pause, loaded = 0.0, False
        while not self._closing.wait(pause):
            begun, size = time.monotonic(), self._log.seek(0, 2)
            process = self._started()
            if process is None:
                return
            answered, ended = threading.Event(), threading.Event()
            faults: list[str] = []  # why it was ended
            threading.Thread(target=self._attend, args=(process, answered, ended, faults), daemon=True).start()
            answer = self._answer(process)
            answered.set()
            if answer == {}:
                loaded = True
                self._tell(Status(state="ready", deaths=self._deaths))
            process.wait()
            ended.set()
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            if self._closing.is_set():
                return
            self._deaths += 1
            number = max(0, -process.returncode)
            if not loaded:
                why = f"llama.cpp {faults[0]}" if faults else _why(process.returncode, self.address.end_of_log(size))
                fault = f"{self._launch.model}: cannot be loaded: {why}"
                if answer and "field" in answer:
                    fault = f"--llama: {answer['error']}"
                self._tell(Status(state="failed", deaths=self._deaths, signal=number, fault=fault))
                self._failed(fault)
                return
            pause = 0.0 if time.monotonic() - begun > _STEADY else min(2 * pause + 0.25, _LONGEST_PAUSE)
            why = faults[0] if faults else f"ended ({_reason(process.returncode)})"
            fault = f"llama.cpp {why} and is started again"
            self._tell(Status(state="ended", deaths=self._deaths, signal=number, fault=fault))
            log.error("%s in %g s; its log ends: %s", fault, pause, _last(self.address.end_of_log(size)) or "(empty)")

    def _attend(
        self, process: "subprocess.Popen[bytes]", answered: threading.Event, ended: threading.Event, faults: list[str]
    ) -> None:
        """End a process that does nothing while it loads, or that answers nothing later, for too long."""
        missed, before = 0.0, ""  # not by the clock: this process may have been stopped too
        while missed < _IDLE and not answered.is_set():
            if ended.wait(_CHECK):
                return
            done = _work(process.pid)
            missed = missed + _CHECK if done and done == before else 0.0
            before = done
        fault = f"did nothing for {_IDLE:g} s"
        if answered.is_set():
            missed, fault = 0.0, f"answered nothing for {_SILENT:g} s"
            while missed < _SILENT:
                if ended.wait(_CHECK):
                    return
                missed = 0.0 if self._answers() else missed + 2 * _CHECK
        faults.append(fault)
        process.kill()

    def _answers(self) -> bool:
        try:
            self.address.ask("GET", "/health", _CHECK)
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _started(self) -> "subprocess.Popen[bytes] | None":
        address = {"port": self._port, "key": self.address.key, "reuse": self._reuse}
        job = {**msgspec.structs.asdict(self._launch), **address}
        with self._lock:
            if self._closing.is_set():
                return None
            # -P: nothing is imported from the script's folder. In its own session, Ctrl-C does not reach it.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                env={"OMP_WAIT_POLICY": "passive", "GGML_NO_BACKTRACE": "1", **os.environ},
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.write(msgspec.json.encode(job) + b"\n")
            self._process.stdin.flush()
        return self._process

    def _answer(self, process: "subprocess.Popen[bytes]") -> dict[str, str] | None:
        """The answer of the process; ``None`` if it ends without one."""
        assert process.stdout is not None
        line = process.stdout.readline(_KEPT)
        process.stdout.close()
        return json.loads(line) if line.endswith(b"\n") else None

    def _tell(self, status: Status) -> None:
        path = Path(self._folder.name) / _STATUS
        new = path.with_suffix(".new")
        with contextlib.suppress(FileNotFoundError):  # the folder is gone: nobody asks any more
            new.write_bytes(msgspec.json.encode(status))
            new.replace(path)


def _owned(folder: Path) -> IO[str] | None:
    """A file in a folder that is locked for as long as this process lives; ``None`` where they cannot be."""
    new = folder / f"{_LOCK}.new"
    made = new.open("w")
    try:
        fcntl.flock(made, fcntl.LOCK_EX)
    except OSError:
        made.close()
        return None
    new.rename(folder / _LOCK)  # nobody sees it without the lock
    return made


def _remove_abandoned() -> None:
    """Remove the folders that processes of this user left behind because they were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*/{_LOCK}"):
        with contextlib.suppress(OSError):  # one in use, or gone
            if path.parent.lstat().st_uid == os.getuid():  # asked first: another's may be a pipe
                with path.open() as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent, ignore_errors=True)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close the pipe, which ends the process, and end it otherwise if it does not."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _work(pid: int) -> str:
    """What a process has done so far: its page faults that read a file, and its times; without /proc, its time in
    seconds and its memory. Empty where that is unknown."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"{_PROC}/{pid}/stat").read_text().rpartition(")")[2].split()
        return " ".join((fields[9], fields[11], fields[12]))
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # Windows has no ps
        command = ["ps", "-o", "time=", "-o", "rss=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, timeout=_CHECK).stdout.strip()
    return ""


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


_PARTIAL: Final = "the file is not complete"
_CUT: Final = re.compile(r"failed to read (?:tensor info|key-value pairs|header|magic)\s*\Z")
"""Matches the first error if the file ends early; after another, it only follows from that."""
_KNOWN: Final = (
    (re.compile(r"unknown model architecture: '([^']{1,80})'"), "this llama.cpp does not know the architecture {0!r}"),
    (re.compile(r"unknown pre-tokenizer type: '([^']{1,80})'"), "this llama.cpp does not know the tokenizer {0!r}"),
    (
        re.compile(r"(?i)(?:failed|unable) to allocate|out of memory|bad_alloc"),
        "there is not enough memory; --context and --slots say less",
    ),
    (re.compile(r"n_seq_max must be <= (\d+)"), "llama.cpp has at most {0} slots; --slots says less"),
    (
        re.compile(r"Resource temporarily unavailable"),
        "it may not start so many threads; --slots and --threads say less",
    ),
    (re.compile(r"failed to (?:init|load|apply) lora[^\n]{0,40}"), "the adapter does not fit the model"),
    (
        re.compile(r"failed to load multimodal model, '([^'\n]{1,400})'"),
        "the projector {0} does not fit it; --mmproj names another one",
    ),
    (re.compile(r"GGML_ASSERT\(([^\n]{1,200})\) failed"), "llama.cpp's condition {0!r} does not hold"),
    (re.compile(r"has invalid ggml type (\d+)"), "this llama.cpp does not know the type {0} of a tensor"),
    (
        re.compile(r"failed to load GGUF split from ([^\n]{1,400})"),
        "its part {0} is not complete, or not a GGUF file",
    ),
    (re.compile(r"data is not within the file bounds"), _PARTIAL),
)


def _why(code: int, written: str) -> str:
    """Why a model could not be loaded, in a few words."""
    for pattern, words in _KNOWN:
        if found := pattern.search(written):
            return words.format(*found.groups())
    if code == -signal.SIGKILL:
        return "llama.cpp was killed, perhaps because memory is used up; --context and --slots say less"
    errors = _errors(written)  # the first is the cause of the others
    if errors and _CUT.search(errors[0]):
        return _PARTIAL
    return _shown(errors[0]) if errors else _last(written) or f"llama.cpp ended ({_reason(code)})"


def _last(written: str) -> str:
    return _shown((_errors(written) or [line for line in written.splitlines() if line.strip()] or [""])[-1])


def _errors(written: str) -> list[str]:
    return [line for line in written.splitlines() if " E " in line[:24]]


def _shown(line: str) -> str:
    return _PREFIX.sub("", line).strip()[:300]
