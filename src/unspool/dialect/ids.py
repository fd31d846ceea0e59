"""The ids of calls: a dialect's form, filled in."""

import os
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

MakeId = Callable[[int, str], str]  # ``(index, name) -> str``: makes the id of a call without one

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LETTERS: Final = bytes(ord(_ALPHABET[i % len(_ALPHABET)]) for i in range(256))


class CallIds(msgspec.Struct, eq=False):
    """Gives the calls of one output their ids, each of them once.

    Args:
        template: the dialect's template for ids; each ``?`` is a random letter or digit.
        make: makes ids instead of the template.
    """

    _template: str
    _make: MakeId | None
    given: dict[str, int] = {}  # the ids given so far, with the index of the call that has each

    def of(self, index: int, name: str, fields: Mapping[str, str]) -> str:
        """The id of a call: its own, from its template's fields, or a generated one."""
        template = self._template
        own = fields.get("id", "")
        if self._make is None and "{" not in template and not own:  # as in most calls
            head = template.rstrip("?")
            if "?" not in head and head is not template:
                return head + random_letters(len(template) - len(head))
        if own and own.isprintable():
            return own
        number = fields.get("index")
        if "number" in fields:
            number = str(max(int(fields["number"]) - 1, 0))
        if number is not None and "{index}" in template:
            return fill_id(template, name, number)
        return self._new(index, name) if self._make is None else self._make(index, name)

    def instead(self, call_id: str, index: int, name: str) -> str:
        """An id that no earlier call has, instead of one that is taken."""
        number = index
        made = self._new(number, name, call_id)
        while self.given.get(made, index) < index:
            number += 1
            another = self._new(number, name, call_id)
            made = another if another != made else f"{call_id}-{number}"
        return made

    def _new(self, index: int, name: str, instead: str = "") -> str:
        """An id in the dialect's form: random, or determined by the id that it replaces (``instead``)."""
        template = fill_id(self._template, name, str(index))
        if "?" not in template:
            return template
        size = template.count("?")
        if not instead:
            return fill_letters(template, random_letters(size))
        from hashlib import shake_128  # rarely needed

        digest = shake_128(f"{index}:{instead}".encode("utf-8", "surrogatepass")).digest(len(template))
        number = int.from_bytes(digest)
        letters = ""
        for _ in range(size):
            number, digit = divmod(number, len(_ALPHABET))
            letters += _ALPHABET[digit]
        return fill_letters(template, letters)


_pools: Final[dict[int, list[str]]] = {}
"""Random letters for the next ids, by their number: one call of the system makes many."""
_POOL: Final = 64
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def random_letters(size: int) -> str:
    pool = _pools.setdefault(size, [])
    try:
        return pool.pop()  # of a list, which threads may share
    except IndexError:
        letters = os.urandom(size * _POOL).translate(_LETTERS).decode()
        pool += map("".join, zip(*[iter(letters)] * size, strict=True))
        return pool.pop()


def fill_id(template: str, name: str, index: str) -> str:
    """Fill in the template of an id; `fill_letters` replaces its ``?``."""
    if "{" not in template:
        return template
    number = str(int(index) + 1) if "{number}" in template else ""
    return template.replace("{name}", name).replace("{index}", index).replace("{number}", number)


def fill_letters(template: str, letters: str) -> str:
    """Replace each ``?`` of a template with the next letter; there are at least as many letters."""
    head, *rest = template.split("?")
    return head + "".join(letter + part for letter, part in zip(letters, rest, strict=False))
