"""The process that decides whether a grammar may be compiled: it tries each in a child process, under limits.

A schema of a few bytes can make a grammar of gigabytes, and nothing stops a compilation in a thread. This process has
one thread and loads the tokenizer once. A child that is forked from it compiles a grammar, and is killed if it takes
too long, grows too large, or nobody waits for it any more. The server itself may then compile what the child could.

It is run as a file and imports nothing of unspool. Standard input starts with one line of JSON and a description of the
tokenizer: the bytes of each token (``pieces``, in Latin-1), the ids of ``special`` ones, and of those that are an
``eos``. Jobs follow, each a line of JSON and a grammar; answers are lines of JSON, which also say whether the job's
``output``, which has ``ended`` or was cut, follows the grammar. A byte in the pipe ``cancel`` ends the job at hand.
"""

import json
import os
import re
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def _address_space() -> int:
    """Bytes of the address space of this process; 0 if the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _compile(
    library: Any, tokenizer: Any, pieces: "LongestPieces", job: dict[str, Any], grammar: str
) -> dict[str, Any]:
    limits = library.LLParserLimits(**job["limits"])
    matcher = library.LLMatcher(tokenizer, library.LLMatcher.grammar_from_lark(grammar), log_level=0, limits=limits)
    if not matcher.is_error():
        matcher.compute_bitmask()
    ids = pieces.of_output(job["output"])
    follows = not matcher.is_error() and matcher.try_consume_tokens(ids) == len(ids)
    if job["ended"]:
        follows = follows and (matcher.is_stopped() or matcher.is_accepting())
    return {"error": matcher.get_error() if matcher.is_error() else "", "follows": follows}


def _child(write: int, compile: Callable[..., dict[str, Any]], job: dict[str, Any], grammar: str) -> None:
    """Compile in this child process, and report the verdict."""
    import resource

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Rust reports there that memory is used up
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, job["seconds"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if space := _address_space():
        resource.setrlimit(resource.RLIMIT_AS, (space + job["memory"],) * 2)
    os.write(write, json.dumps(compile(job, grammar)).encode())


def _judge(compile: Callable[..., dict[str, Any]], cancel: int, job: dict[str, Any], grammar: str) -> bytes:
    """Fork, and return the child's verdict, or the limit that ended it."""
    while select.select([cancel], [], [], 0)[0]:
        os.read(cancel, 1024)  # meant for an earlier job
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _child(write, compile, job, grammar)
        finally:
            os._exit(0)
    os.close(write)
    verdict = b""
    cancelled = False
    while True:
        ready = select.select([read] if cancelled else [read, cancel], [], [])[0]
        if cancel in ready:
            cancelled = True
            os.kill(pid, signal.SIGKILL)
        if read in ready:
            data = os.read(read, 65_536)
            if not data:
                break
            verdict += data
    os.close(read)
    _, status = os.waitpid(pid, 0)
    if verdict:
        return verdict
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGXCPU)
    return json.dumps({"over": "cancelled" if cancelled else "time" if late else "memory"}).encode()


class LongestPieces:
    """A tokenizer that knows its tokens, and encodes by the longest ones."""

    def __init__(self, text: str) -> None:
        described = json.loads(text)
        self.ends = described["eos"]
        self.special_token_ids = described["special"]
        special = set(self.special_token_ids)
        mark = b"\xff"  # llguidance's sign for tokens that are never text
        self.tokens = [mark * (i in special) + p.encode("latin-1") for i, p in enumerate(described["pieces"])]
        self.eos_token_id = self.ends[0]
        self.bos_token_id = None
        self._ids = {token: i for i, token in enumerate(self.tokens) if token and i not in special}
        self._longest = max(map(len, self._ids), default=0)
        self._special = {described["pieces"][i].encode("latin-1"): i for i in special}
        longest_first = sorted(map(re.escape, self._special), key=len, reverse=True)
        self._cut = re.compile(b"(" + (b"|".join(longest_first) or b"(?!)") + b")").split

    def of_output(self, text: str) -> list[int]:
        """The tokens of an output, which shows special ones by their text."""
        parts = self._cut(text.encode())
        return [id for part in parts for id in ([self._special[part]] if part in self._special else self(part))]

    def __call__(self, text: bytes) -> list[int]:
        found, at = [], 0
        while at < len(text):
            for size in range(min(self._longest, len(text) - at), 0, -1):
                if (token := self._ids.get(text[at : at + size])) is not None:
                    found.append(token)
                    break
            else:
                size = 1
            at += size
        return found


def read_tokenizer(library: Any, pieces: LongestPieces) -> Any:
    return library.LLTokenizer(library.TokenizerWrapper(pieces), eos_token=pieces.ends, slices=[])


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all, but the server decides when this ends
    asked = sys.stdin.buffer
    begin = json.loads(asked.readline())
    import llguidance

    pieces = LongestPieces(asked.read(begin["tokenizer"]).decode())
    compile = partial(_compile, llguidance, read_tokenizer(llguidance, pieces), pieces)
    while (line := asked.readline()).endswith(b"\n"):
        job = json.loads(line)
        grammar = asked.read(job["size"])
        if len(grammar) < job["size"]:
            return  # the server ended while it wrote
        os.write(1, _judge(compile, begin["cancel"], job, grammar.decode()) + b"\n")


if __name__ == "__main__":
    main()
