"""Rollouts for training: conversations by token, masks by kind, rewards. Needs the extra ``rl``."""

from ..engines.token_kinds import KINDS, SAMPLED
from . import rewards
from .batches import collate
from .conversation import Conversation
from .media import expand
from .sample import CallSpan, Rewrite, Sample, Transcript

__all__ = [
    "KINDS",
    "SAMPLED",
    "CallSpan",
    "Conversation",
    "Rewrite",
    "Sample",
    "Transcript",
    "collate",
    "expand",
    "rewards",
]
