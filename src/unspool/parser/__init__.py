"""The parser: raw text or token ids in, events out; one machine for streams and whole texts."""

from .parser import Parser, detect_stage, parse

__all__ = ["Parser", "detect_stage", "parse"]
