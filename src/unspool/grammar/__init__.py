"""Grammars of dialects: whatever they let a model generate also parses."""

from .calls import StructureInfo, ToolStrictLevel, structure_info
from .constraint import Constraint, constrain, structure_constraint
from .matchers import Llguidance, Matcher, Xgrammar

__all__ = [
    "Constraint", "Llguidance", "Matcher", "StructureInfo", "ToolStrictLevel", "Xgrammar", "constrain",
    "structure_constraint", "structure_info",
]  # fmt: skip
