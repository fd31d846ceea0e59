"""A pytest plug-in for `tests.dialect.among`, which collects only the tests of the dialects in the variable AMONG.

`list_dialects` lists only these, but `get_dialect` finds all. To collect the tests of all takes a quarter of a minute.
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
