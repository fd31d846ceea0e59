"""The builtin model as it is served: bounded, led by what a request says, and led to copy."""

from typing import Final

from ..base import Sampling
from .bounds import Bounded
from .led import Led
from .model import Model
from .said import Copying

SAMPLING: Final = Sampling(temperature=0.0)
"""What holds where a request leaves it open: a model this small is at its best where it says what is likeliest."""


def served(model: Model | None = None) -> Bounded:
    """What `unspool.engines.batching` runs.

    Args:
        model: default: the one that comes with the package.
    """
    return Bounded(Led(Copying(model or Model())))
