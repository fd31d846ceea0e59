"""What a dialect is: its file and templates, the patterns and the plan compiled from them, and the registry of
names."""

from .file import Dialect

__all__ = ["Dialect"]
