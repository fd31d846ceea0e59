"""The dialect of each template, and the known differences between template and renderer."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec


@dataclass(frozen=True)
class Source:
    """A chat template, and the form of the messages that it takes.

    Attributes:
        dialect: the name of the dialect that it writes.
        package, file: where it is, without ``.jinja``.
        variables: its variables besides messages and tools.
        arguments: whether arguments reach it as an object or as JSON text.
        reasoning: the key of a message that contains its reasoning; ``parts`` for a list of content parts.
        sandboxed: false for templates that change lists.
        unmarked: whether it contains too little of the format to be recognized.
    """

    dialect: str
    package: str
    file: str
    variables: dict[str, Any] = field(default_factory=dict)
    arguments: Literal["object", "text"] = "object"
    reasoning: str = "reasoning_content"
    sandboxed: bool = True
    unmarked: bool = False

    def path(self, folders: dict[str, Path]) -> Path:
        """Its file."""
        return folders[self.package] / f"{self.file}.jinja"

    def text(self, folders: dict[str, Path]) -> str:
        return self.path(folders).read_text(encoding="utf-8")


SOURCES = msgspec.json.Decoder(Source).decode_lines(Path(__file__).with_name("sources.jsonl").read_bytes())


# -- known differences -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """How templates differ from the renderer, in some of the cases (globs of their names).

    A difference turns the text of the renderer into that of the template. One that is no longer needed fails the test.

    Attributes:
        without: parts of the message that the template does not write.
        reasoning: whether it writes an ``empty`` reasoning, or ``closed`` one, by its closing alone.
        writes: which alternative of a dialect's key it writes, if not the first.
        swap: texts that it writes differently.
        before, behind: what it writes at the beginning and at the end.
        indented: whether it writes the list of calls as indented JSON.
        text: its whole text, if nothing simpler describes the difference.
        error: what it says when it refuses the message.
    """

    files: tuple[str, ...]
    cases: tuple[str, ...]
    reason: str
    without: tuple[str, ...] = ()
    reasoning: Literal["", "empty", "closed"] = ""
    writes: dict[str, int] = field(default_factory=dict)
    swap: tuple[tuple[str, str], ...] = ()
    before: str = ""
    behind: str = ""
    indented: bool = False
    text: str = ""
    error: str = ""

    def concerns(self, file: str, case: str) -> bool:
        return file in self.files and any(fnmatchcase(case, pattern) for pattern in self.cases)


DIFFERENCES = msgspec.toml.decode(
    Path(__file__).with_name("differences.toml").read_bytes(), type=dict[str, list[Difference]]
)["differences"]


# -- dialects without a template ---------------------------------------------------------------------------------------

_NOWHERE = """
beam deepseekv41 dots ernie45 gigachat35 hy_v4 hyperclovax-14b inkling interns1 iquest_coder_v2 iquest_q1 k2_horizon
kimi llm-jp-4 longcat longcat2 mimo olmo3 openpangu_v2 pangu plamo3 rwkv sarashina solar-open2 step-audio-2 step3
telechat4 trinity zaya
"""
_NONE = "no template of the corpus writes its format"

UNTEMPLATED: dict[str, str] = {
    "deepseek": "a reading of the family's formats; `deepseekv31` writes the same text",
    "apriel": "proven by `make infer`: the prompt opens every reasoning, which no history does",
    "apriel-1.5": "proven by `make infer`: the template writes a thought behind the answer",
    "exaone4": "proven by `make infer`, which has a package with its template",
    "jamba": "proven by `make infer`, which has a package with its template",
    "kat-v1": "proven by `make infer`, which has a package with its template",
    "command-r-plus": "proven by `make infer`: the template indents arguments",
    "reka-edge": "proven by `make infer`: a space stands between the prompt and what histories write",
    "deepseek-r1": "a reading of the family's formats; `deepseekv3` writes the same text",
    "json": "no family's format",
    "openai-generic": "a reading of several families' formats",
    "think": "no family's format",
    **dict.fromkeys(_NOWHERE.split(), _NONE),
}
"""Dialects without a template in `SOURCES`, and why."""
