"""Engines elsewhere: servers with an OpenAI-style completion endpoint, over HTTP."""

from .engine import Upstream
from .kinds import KINDS

__all__ = ["KINDS", "Upstream"]
