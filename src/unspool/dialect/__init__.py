"""What a dialect is: its file and templates, the patterns and the plan made of them, the registry of names."""

from .file import Dialect

__all__ = ["Dialect"]
