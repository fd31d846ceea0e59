"""Rollouts for training: conversations by token, masks by kind, rewards. Needs the extra ``rl``."""

from . import rewards
from .batches import collate
from .conversation import CallSpan, Conversation, Rewrite, Sample, Transcript
from .kinds import KINDS, SAMPLED

__all__ = [
    "KINDS",
    "SAMPLED",
    "CallSpan",
    "Conversation",
    "Rewrite",
    "Sample",
    "Transcript",
    "collate",
    "rewards",
]
