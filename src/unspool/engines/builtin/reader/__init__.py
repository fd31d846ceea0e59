"""Reads what a request asks for, by its words: the builtin model is led to it."""

from .prompt import Prompt, Reading
from .reader import Answer, arguments, read

__all__ = ["Answer", "Prompt", "Reading", "arguments", "read"]
