"""A plugin of pytest, for `tests.dialect.among`: only tests of the dialects that AMONG names are collected, since
`list_dialects` lists no others; by name all can be had. Collecting the tests of all takes a quarter of a minute.
"""

import os

import unspool
from unspool import Dialect
from unspool.dialect import registry

_every = registry.list_dialects
_names = os.environ["AMONG"].split()


def _chosen() -> list[Dialect]:
    return [d for d in _every() if d.name in _names]


registry.list_dialects = _chosen
unspool.list_dialects = _chosen
