"""The parser: raw text or token ids in, events out; one machine for streams and whole texts."""

from .parser import Parser, parse

__all__ = ["Parser", "parse"]
