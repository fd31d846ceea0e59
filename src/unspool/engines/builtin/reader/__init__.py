"""Reads what a request asks for, by its words: the builtin model is led to it.

A message's words are compared with `words`, which knows what tools are for (concepts) and what their parameters take
(kinds). `scores` finds the tool, `clauses` the parts of a message that ask for several, `fill` the arguments: values
are recognized by their form (`spans`), by what comes before them, or are what is left. `follow` reads follow-ups,
`talk` small talk. Where the words are not clear, the model answers by itself.
"""

from .prompt import Prompt, Reading
from .reader import Answer, arguments, read, valued

__all__ = ["Answer", "Prompt", "Reading", "arguments", "read", "valued"]
