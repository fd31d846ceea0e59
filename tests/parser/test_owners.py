"""Each part alone writes its fields, and changes the lists, dicts and sets that they hold.

A list changes hands in two ways only: a method of its owner changes it, or a method returns a new one.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import unspool.parser

PACKAGE = Path(unspool.parser.__file__).parent
ALWAYS = {"clear", "pop", "popitem", "popleft", "reverse", "sort"}
"""Methods that change what holds values. These have the same meaning everywhere."""
WITH_ARGUMENTS = {
    "add", "append", "appendleft", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "remove", "setdefault", "update",
}  # fmt: skip
"""These may be other methods if they take no arguments."""
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
NEW = (*DISPLAYS, ast.BinOp, ast.Constant)
COPIES = {"bytearray", "deque", "dict", "list", "set", "sorted"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def own(node: ast.AST | None) -> bool:
    """Whether this is a field of ``self``."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of a statement, and what is assigned to each; an element stands for all that are iterated over."""
    match node:
        case ast.Assign():
            for target in node.targets:
                yield from pairs(target, node.value)
        case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
            yield node.target, value
        case ast.For() | ast.comprehension():
            yield from pairs(node.target, ast.Subscript(node.iter, ast.Constant(0), ast.Load()))


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple):
        apart = isinstance(value, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in value.elts)
        values = value.elts if apart and isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for one, part in zip(target.elts, values, strict=True):
            yield from pairs(one, part)
    else:
        yield target, value


def changed(tree: ast.AST) -> Iterator[ast.expr]:
    """What the code of a function changes: the objects whose elements or keys are written or removed."""
    without = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call) and not (n.args or n.keywords)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            if isinstance(node.value, (*DISPLAYS, ast.Tuple)):
                yield node.target
        elif isinstance(node, ast.Attribute) and (
            node.attr in ALWAYS or (node.attr in WITH_ARGUMENTS and id(node) not in without)
        ):
            yield node.value


def origins(node: ast.expr, function: Function, seen: frozenset[str] = frozenset()) -> Iterator[ast.expr]:
    """Where an object comes from: a field of ``self``, or something that belongs to another; nothing if it is new."""
    match node:
        case ast.Subscript(value=ast.Call(func=ast.Name(id=name), args=[whole])) if name in COPIES:
            yield from origins(whole, function, seen)  # a copy has the same elements
        case ast.Subscript() | ast.NamedExpr():
            yield from origins(node.value, function, seen)
        case ast.IfExp():
            yield from origins(node.body, function, seen)
            yield from origins(node.orelse, function, seen)
        case ast.BoolOp():
            for value in node.values:
                yield from origins(value, function, seen)
        case ast.Call(func=ast.Name(id=name)) if name in COPIES or name[:1].isupper() or name[1:2].isupper():
            pass  # `Level(…)` or `_Kind(…)` makes an object
        case ast.Call(func=ast.Attribute(attr="get" | "setdefault" | "values" | "pop") as method):
            yield from origins(method.value, function, seen)
        case ast.Name(id="self"):
            pass
        case ast.Name(id=name):
            values = [v for n in ast.walk(function) for t, v in assigned(n) if isinstance(t, ast.Name) and t.id == name]
            given = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
            if name in given:
                yield node
            for value in values if name not in seen else ():
                yield from origins(value, function, seen | {name})
        case _ if not isinstance(node, NEW):
            yield node


def foreign(sources: dict[str, str]) -> list[str]:
    """The places in modules, given by their names, where something changes that belongs to another."""
    found: list[str] = []
    written: dict[str, set[str]] = {}  # by class: the fields whose contents change
    bases: dict[str, set[str]] = {}
    methods: list[tuple[str, str, Function]] = []
    for name, source in sources.items():
        tree = ast.parse(source)
        methods += [(name, "", f) for f in tree.body if isinstance(f, Function)]
        for cls in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
            bases[cls.name] = {b.id for b in cls.bases if isinstance(b, ast.Name)}
            methods += [(name, cls.name, f) for f in cls.body if isinstance(f, Function)]
    for name, of, function in methods:
        for what in changed(function):
            for origin in origins(what, function):
                if isinstance(origin, ast.Attribute) and own(origin):
                    written.setdefault(of, set()).add(origin.attr)
                else:
                    found.append(f"{name}:{what.lineno}: {ast.unparse(what)} is from {ast.unparse(origin)}")
    for name, of, function in methods:
        fields = {f for other, theirs in written.items() if related(of, other, bases) for f in theirs}
        for node in ast.walk(function):
            for target, value in assigned(node):
                if isinstance(target, ast.Attribute) and own(target) and target.attr in fields:
                    found += [
                        f"{name}:{target.lineno}: self.{target.attr} is from {ast.unparse(origin)}"
                        for origin in origins(value, function)
                        if not own(origin)
                    ]
    return found


def related(one: str, other: str, bases: dict[str, set[str]]) -> bool:
    """Whether a class is, or is derived from, another, or the other from it."""
    return other in ancestors(one, bases) or one in ancestors(other, bases)


def ancestors(name: str, bases: dict[str, set[str]]) -> set[str]:
    return {name}.union(*(ancestors(base, bases) for base in bases.get(name, ())))


def modules() -> Iterable[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def written(tree: ast.AST) -> list[str]:
    """The attributes that a module writes of other objects than ``self``."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and not own(node)
    ]


def test_no_part_writes_the_fields_of_another() -> None:
    assert {p.name: w for p in modules() if (w := written(ast.parse(p.read_text(encoding="utf-8"))))} == {}


def test_no_part_changes_what_the_fields_of_another_hold() -> None:
    assert foreign({str(p.relative_to(PACKAGE)): p.read_text(encoding="utf-8") for p in modules()}) == []


@pytest.mark.parametrize(
    "body",
    [
        "self.other.things.append(1)",
        "other.things[0] = 1",
        "del other.things[:2]",
        "other.things[1:] += [2]",
        "things = self.other.things\n  things.clear()",
        "for thing in other.things:\n   thing.add(1)",
        "put = other.things.append",
        "other.update(a=1)",
        "things = other.things\n  things += [1]",
        "a, self.mine = 1, other.things\n  self.mine.append(1)",
        "self.mine = [] if a else other.things()\n  self.mine.pop()",
        "self.mine = other\n  self.mine.sort()",
        "(self.things or other.things).extend([1])",
        "if found := other.thing():\n   found.remove(1)",
        "for thing in list(other.things):\n   thing.clear()",
    ],
)
def test_a_change_of_what_another_holds_is_found(body: str) -> None:
    assert len(foreign({"a": f"class Part:\n def do(self, other):\n  {body}"})) == 1


def test_a_field_that_a_derived_class_takes_from_another_is_found() -> None:
    source = "class A:\n def put(self):\n  self.out.append(1)\nclass B(A):\n def take(self, out):\n  self.out = out"
    assert foreign({"a": source}) == ["a:6: self.out is from out"]


@pytest.mark.parametrize(
    "body",
    [
        "self.things.append(1)",
        "self.things[-1].add(1)",
        "for thing in self.things:\n   thing.clear()",
        "things = [*other.things]\n  things.pop()",
        "self.mine = list(other.things)\n  self.mine.sort()",
        "due, self.mine = self.mine, []\n  self.mine[:] = due",
        "other.discard()",
        "self[1] = 2",
        "self.mine = Growing()\n  self.mine.add(1)",
    ],
)
def test_a_change_of_its_own_is_no_fault(body: str) -> None:
    assert foreign({"a": f"class Part:\n def do(self, other):\n  {body}"}) == []
