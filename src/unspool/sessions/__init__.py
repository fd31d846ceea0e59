"""Sessions: each run of an agent as a tree of its generations, token by token, with rows for training.

A request belongs to a session by its API key, its path or a header; see `unspool.server.sessions`. Its prompt
continues an earlier call of the session with that call's very tokens (`Tree`), its output is recorded as it was sampled
(`GenerationRecording`), and `Session.rollout` gives all of it, in the form of `unspool.rl.rollouts`.
"""

from .examine import Examined
from .records import About, Model, SessionLimits
from .registry import Sessions
from .session import GenerationRecording, Session, SessionRefused

__all__ = [
    "About",
    "Examined",
    "GenerationRecording",
    "Model",
    "Session",
    "SessionLimits",
    "SessionRefused",
    "Sessions",
]
