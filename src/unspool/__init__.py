"""Unspool a model's token stream into reasoning, content and tool calls."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .dialect.file import Dialect
from .dialect.registry import get_dialect, list_dialects
from .errors import ConstraintError, DialectError, TemplateError, ToolsError, UnknownDialect
from .events import (
    NOTICES,
    ContentDelta,
    Event,
    Finish,
    Markup,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Stage,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .message import Message, Segment, ToolCall, fold
from .parser import Parser, parse
from .policy import Policy
from .toolset import Toolset, read_toolset

if TYPE_CHECKING:
    from .check import load_dialect
    from .grammar import Constraint, StructureInfo, ToolStrictLevel, constrain, structure_constraint, structure_info
    from .infer import Inference, infer_dialect
    from .infer.choosing import Choice, choose_dialect, prove_dialect
    from .infer.detect import Candidate, detect_dialect
    from .parser.stage import detect_stage
    from .renderer import render

__version__ = "0.1.0"

__all__ = [
    "NOTICES", "Candidate", "Choice", "Constraint", "ConstraintError", "ContentDelta", "Dialect", "DialectError",
    "Event", "Finish", "Inference", "Markup", "Message", "Notice", "Parser", "Policy", "ReasoningDelta", "ReasoningEnd",
    "ReasoningStart", "Segment", "Stage", "StructureInfo", "TemplateError", "ToolCall", "ToolCallDelta", "ToolCallEnd",
    "ToolCallStart", "ToolStrictLevel", "ToolsError", "Toolset", "UnknownDialect", "__version__", "choose_dialect",
    "constrain", "detect_dialect", "detect_stage", "fold", "get_dialect", "infer_dialect", "list_dialects",
    "load_dialect", "parse", "prove_dialect", "read_toolset", "render", "structure_constraint", "structure_info",
]  # fmt: skip

# Names that parsing does not need are imported on first use.
_LATER = {
    "Candidate": "infer.detect",
    "Choice": "infer.choosing",
    "Inference": "infer",
    "Constraint": "grammar",
    "StructureInfo": "grammar",
    "ToolStrictLevel": "grammar",
    "choose_dialect": "infer.choosing",
    "constrain": "grammar",
    "detect_dialect": "infer.detect",
    "detect_stage": "parser.stage",
    "infer_dialect": "infer",
    "load_dialect": "check",
    "prove_dialect": "infer.choosing",
    "render": "renderer",
    "structure_constraint": "grammar",
    "structure_info": "grammar",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
