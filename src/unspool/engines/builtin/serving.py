"""The builtin model as it is served: bounded, led by the reader, and led to copy."""

from typing import Final

from ..base import Sampling
from .bounds import Bounded
from .led import Led
from .model import Model
from .said import Copying

SAMPLING: Final = Sampling(temperature=0.0)
"""The defaults for a request's sampling: a model this small is best if it takes the likeliest token."""


def served(model: Model | None = None) -> Bounded:
    """The model that `unspool.engines.batching` runs.

    Args:
        model: by default the one that comes with the package.
    """
    return Bounded(Led(Copying(model or Model())))
