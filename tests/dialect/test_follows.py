"""What ends a text value: its closing, its call's or its block's, each with what may follow it."""

from unspool.dialect.compiling import compile_plan
from unspool.dialect.follows import follows
from unspool.dialect.loader import parse_dialect
from unspool.dialect.patterns import closing
from unspool.dialect.registry import find_base
from unspool.policy import Policy

FILE = """
name = "mine"
end = ["<|end|>"]
calls = "<calls>{calls}</calls>"
call = "<call {name}>{arguments}</call>"
argument = "<arg {key}>{value}</arg>"
[[examples]]
raw = "x"
content = "x"
"""


def test_each_closing_is_followed_by_what_may_come_after_it() -> None:
    dialect = parse_dialect(FILE, "mine.toml", find_base)
    rule = follows(compile_plan(dialect, Policy()), closing(dialect.argument[0].after))
    pairs = [({p.first for p in part.closings}, {p.first for p in part.followers}) for part in rule]
    assert pairs == [
        ({"</arg>"}, {"<arg", "</call>", "</calls>", "<call", "<calls>", "<|end|>"}),
        ({"</call>"}, {"</calls>", "<call", "<calls>", "<|end|>"}),
        ({"</calls>"}, {"<|end|>"}),
    ]
