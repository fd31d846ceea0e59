"""Reads from a request's words what it asks for. The builtin model is then led to this answer.

`words` knows the purposes of tools (concepts) and the values of their parameters (kinds), and a message's words are
compared with these. `scores` finds the tool, `clauses` the parts of a message that ask for several tools, `fill` the
arguments. Values are recognized by their form (`spans`) or by the words before them, or consist of the words that are
left. `formats` writes values as descriptions ask for them, `remarks` finds words that hold none. `follow` reads
follow-ups, `talk` small talk. If the words are not clear, the model answers by itself.
"""

from .prompt import Prompt, Reading
from .reader import Answer, arguments, read, valued

__all__ = ["Answer", "Prompt", "Reading", "arguments", "read", "valued"]
