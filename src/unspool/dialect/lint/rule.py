"""What a rule about dialect files is."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ..file import Dialect
from ..template import Template

Found = tuple[str, dict[str, Any]]  # the key of the file that breaks a rule, and the fields of the rule's text


class Rule(msgspec.Struct, frozen=True):
    """A rule that dialect files keep."""

    name: str
    looks_at: str  # the keys of the file that it reads
    what: str  # what it finds; fields in braces are filled with markers and templates of the file
    why: str  # why that cannot work, with the punctuation before it
    instead: str  # what to write
    finds: Callable[[Any], Iterator[Found]]  # the places in a file that break it


class Finding(msgspec.Struct, frozen=True):
    """A place in a file that breaks a rule; as text, it says what is wrong, why, and what to write instead."""

    rule: Rule
    key: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        rule = self.rule
        text = f"{rule.what}{rule.why}{rule.instead and ': '}{rule.instead}"
        return text.format_map(self.fields)


class Rules(list[Rule]):
    """Rules, in the order in which they are tried."""

    def row(
        self, looks_at: str, what: str, why: str = "", instead: str = ""
    ) -> Callable[[Callable[[Any], Iterator[Found]]], None]:
        """Add a rule, named after the decorated function, which yields what breaks it."""

        def add(finds: Callable[[Any], Iterator[Found]]) -> None:
            name = finds.__name__.strip("_").replace("_", "-")
            self.append(Rule(name, looks_at, what, why, instead, finds))

        return add

    def findings(self, subject: Any) -> Iterator[Finding]:
        return (Finding(rule, key, fields) for rule in self for key, fields in rule.finds(subject))

    def hints(self, subject: Any) -> Iterator[str]:
        """The same as lines that explain something else."""
        return (f"hint: {finding}" for finding in self.findings(subject))


def found(key: str, /, **fields: Any) -> Found:
    """A key that breaks a rule; a template is shown as its text."""
    return key, {name: f.text if isinstance(f, Template) else f for name, f in fields.items()}


def parts(d: Dialect, *keys: str) -> Iterator[tuple[str, Template]]:
    return ((key, t) for key in keys for t in getattr(d, key))
