"""What a dialect is: its file, its templates, the patterns and the plan that are compiled from them, and the names."""

from .file import Dialect

__all__ = ["Dialect"]
