"""Engines behind a URL: servers with an OpenAI-style completion endpoint."""

from .engine import Upstream
from .kinds import KINDS

__all__ = ["KINDS", "Upstream"]
