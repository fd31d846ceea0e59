"""The rules that dialect files keep, as rows: what a rule looks at, what it finds, why, and what to write instead.

The loader refuses a file that breaks one of `SIZES`, `TEMPLATES` or `LOADING`, `unspool check` one that breaks one of
`CHECKING`; those of `SOFT` explain why an example fails. The page of rules in the docs is made of them.
"""

from .alike import ALIKE
from .calls import CALLS
from .fields import TEMPLATES
from .keys import KEYS, SIZES
from .readable import READABLE
from .rule import Finding, Rule, Rules
from .soft import SOFT

__all__ = ["CHECKING", "LOADING", "SIZES", "SOFT", "TEMPLATES", "Finding", "Rule", "Rules"]

LOADING = Rules([*KEYS, *READABLE])
CHECKING = Rules([*ALIKE, *CALLS])
