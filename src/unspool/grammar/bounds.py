"""Limits on the schemas of a request, checked before anything is built from them.

A schema of a few bytes can describe a grammar of gigabytes: a multiple of a large number, a count of a million, a
thousand properties in any order. Such schemas are refused with an error that names the place. So are schemas that no
finite value satisfies, such as ``{"$ref": "#"}``: under their grammar nothing could be generated.

Combinations (``allOf`` of ``anyOf``, repeated references) may multiply at each level, so the size of a schema proves
nothing. The steps of a derivation are therefore counted.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

from ..errors import ConstraintError

MAX_NODES: Final = 50_000  # how many nodes the schemas of one request may contain
MAX_TEXT: Final = 500_000  # how many characters the names, values and patterns of one request may have
MAX_VALUES: Final = 10_000  # how many values the enums of one request may list
MAX_PROPERTIES: Final = 1_000  # how many properties an object may declare
MAX_PATTERN: Final = 2_000  # how many characters a pattern may have
MAX_MULTIPLE: Final = 10_000
"""How large ``multipleOf`` may be without its decimal point: a grammar has a state for each remainder."""
MAX_LEAST: Final = 10_000  # how large ``minLength``, ``minItems`` and ``minProperties`` may be
MAX_NUMBER: Final = 10**30  # how large the bounds of numbers may be
MAX_STEPS: Final = 500_000
"""How many steps deriving one grammar may take; 128 tools with 20 properties take up to 300,000."""
_EVERY: Final = 4096  # how many steps pass between two checks whether anybody still waits for the grammar
_VISITS: Final = 200_000


class _TooMuch(Exception):
    """Too many steps. It is not a schema's error, so code that tries other branches after one must not catch it."""


class _Left(threading.local):
    """The steps that are left to the current derivation in this thread (``None``: there is none), and at the next
    check, which raises if nobody waits any more."""

    steps: int | None = None
    look = 0
    check: Callable[[], None] | None = None


_left: Final = _Left()


@contextmanager
def awaited(check: Callable[[], None]) -> Iterator[None]:
    """End derivations inside this context as soon as ``check`` raises, with its error."""
    before, _left.check = _left.check, check
    try:
        yield
    finally:
        _left.check = before


_SCHEMAS: Final = "tools: their schemas combine too much; allowed are fewer properties, allOf, anyOf, oneOf and $ref"


@contextmanager
def derivation(too_much: str = _SCHEMAS) -> Iterator[None]:
    """A context for deriving one grammar, or reading a request's; a `ConstraintError` if it takes too many steps."""
    before, _left.steps, _left.look = _left.steps, MAX_STEPS, MAX_STEPS
    try:
        yield
    except (_TooMuch, RecursionError):
        raise ConstraintError(too_much) from None
    finally:
        _left.steps = before
        _left.look = before or 0


@contextmanager
def parameters_of(tool: str) -> Iterator[None]:
    """A context for reading and writing the parameters of a tool: errors name it."""
    try:
        yield
    except ConstraintError as error:
        error.tool = tool
        raise


def step(size: int = 1) -> None:
    """Count work on this many parts; end the `derivation` if it is too much."""
    if _left.steps is None:
        return
    _left.steps -= size
    if _left.steps < _left.look:
        if _left.steps < 0:
            raise _TooMuch
        _left.look = _left.steps - _EVERY
        if _left.check is not None:
            _left.check()


class Budget:
    """The rest of a request's limits, which all its schemas share."""

    def __init__(self) -> None:
        self._nodes = MAX_NODES
        self._text = MAX_TEXT
        self._values = MAX_VALUES

    def node(self, node: Mapping[Any, Any], at: str) -> None:
        """Count a node and its names; `ConstraintError` if it is too much, as below."""
        self._nodes -= 1
        if self._nodes < 0:
            raise ConstraintError(f"{at}: the schemas have more than {MAX_NODES:,} nodes")
        for key in ("properties", "patternProperties"):
            names = node.get(key)
            if not isinstance(names, Mapping):
                continue
            if len(names) > MAX_PROPERTIES:
                raise ConstraintError(f"{at}.{key}: {len(names):,} properties; allowed are {MAX_PROPERTIES:,}")
            for name in names:
                self.text(name, f"{at}.{key}")

    def text(self, text: object, at: str, most: int = MAX_TEXT) -> None:
        """Count a name, a value or a pattern, which must not contain a lone surrogate."""
        if not isinstance(text, str):
            return
        self._text -= len(text)
        if len(text) > most:
            raise ConstraintError(f"{at}: {len(text):,} characters; allowed are {most:,}")
        if self._text < 0:
            raise ConstraintError(f"{at}: names, values and patterns have more than {MAX_TEXT:,} characters")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConstraintError(f"{at}: {text[:60]!a} contains a lone surrogate, which is not a character") from None

    def values(self, value: Any, at: str) -> None:
        """Count the values of an ``enum``, or a ``const``, with the texts in them."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            self._values -= 1
            if self._values < (len(one) if isinstance(one, list) else 0):
                raise ConstraintError(f"{at}: enums list more than {MAX_VALUES:,} values")
            if isinstance(one, list):
                waiting.extend(one)
            elif isinstance(one, Mapping):
                for name in one:
                    self.text(name, at)
                waiting.extend(one.values())
            else:
                self.text(one, at)


def check_number(keyword: str, value: float, at: str) -> None:
    """Refuse a number in a schema that cannot be enforced, with a `ConstraintError`."""
    if not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise ConstraintError(f"{at}: is not between -1e30 and 1e30")
    if keyword != "multipleOf":
        return
    if value <= 0:
        raise ConstraintError(f"{at}: must be more than 0, not {value!r}")
    digits = Decimal(repr(value)).normalize().as_tuple().digits
    whole = int("".join(map(str, digits)))
    if max(whole, value) > MAX_MULTIPLE:
        raise ConstraintError(
            f"{at}: {value!r} has too many digits; without its decimal point it must be at most {MAX_MULTIPLE:,}"
        )


def check_count(keyword: str, value: int, at: str) -> None:
    """Refuse a count in a schema that cannot be enforced, with a `ConstraintError`."""
    most = MAX_LEAST if keyword.startswith("min") else 2**31 - 1
    if value > most:
        raise ConstraintError(f"{at}: {value:,} is more than {most:,}" if value < MAX_NUMBER else f"{at}: is too large")


def check_finite(root: Any, definitions: Mapping[str, Any], at: str) -> None:
    """Refuse a prepared schema with a `ConstraintError` if each of its values contains itself, by its references."""
    done: set[str] = set()
    walk = _Finiteness(done)
    changed = True
    while changed:
        changed = False
        for name in reversed(list(definitions)):  # definitions that others refer to mostly come later
            if name not in done and walk.finite(definitions[name]):
                done.add(name)
                changed = True
        if walk.visits > _VISITS:
            return
    if not walk.finite(root):
        raise ConstraintError(f"{at}: no finite value satisfies it; see its $ref")


class _Finiteness:
    """Decides whether nodes have finite values, given the definitions that do."""

    def __init__(self, done: set[str]) -> None:
        self._done = done
        self.visits = 0

    def finite(self, node: Any) -> bool:
        self.visits += 1
        if not isinstance(node, dict):
            return node is not False
        if self.visits > _VISITS:
            return True
        if "$ref" in node and node["$ref"].rpartition("/")[2] not in self._done:
            return False
        if not all(self.finite(part) for part in node.get("allOf", ())):
            return False
        if not all(any(map(self.finite, node[key])) for key in ("anyOf", "oneOf") if key in node):
            return False
        types = node.get("type")
        if types is None or "enum" in node or "const" in node:
            return True
        named = [types] if isinstance(types, str) else types
        return any(self._of_type(node, name) for name in named)

    def _of_type(self, node: dict[str, Any], name: str) -> bool:
        if name == "object":
            properties, others = node.get("properties", {}), node.get("additionalProperties", True)
            return all(self.finite(properties.get(key, others)) for key in node.get("required", ()))
        if name == "array":
            least, first = node.get("minItems", 0), node.get("prefixItems", [])
            needed = first[:least] + ([node.get("items", True)] if least > len(first) else [])
            return all(map(self.finite, needed))
        return True
