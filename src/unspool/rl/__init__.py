"""Rollouts for training: conversations by token, masks by kind, rewards. Needs the extra ``rl``."""

from ..engines.token_kinds import KINDS, SAMPLED
from . import rewards
from .batches import collate
from .conversation import Conversation
from .exports import to_nemo_rl, to_prime_rl, to_skyrl, to_table, to_trl, to_verl
from .media import expand
from .rollouts import Call, Rollout, Row, read_rollout
from .sample import CallSpan, Rewrite, Sample, Transcript

__all__ = [
    "KINDS", "SAMPLED", "Call", "CallSpan", "Conversation", "Rewrite", "Rollout", "Row", "Sample", "Transcript",
    "collate", "expand", "read_rollout", "rewards", "to_nemo_rl", "to_prime_rl", "to_skyrl", "to_table", "to_trl",
    "to_verl",
]  # fmt: skip
