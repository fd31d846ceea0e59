"""Unspool a model's token stream into reasoning, content and tool calls."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .check import load_dialect
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
    from .grammar import Constraint, StructureInfo, ToolStrictLevel, constrain, structure_constraint, structure_info
    from .infer import Inference, infer_dialect
    from .infer.choosing import Choice, choose_dialect, prove_dialect
    from .infer.detect import Candidate, detect_dialect
    from .message import Message, Segment, ToolCall, fold
    from .parser import Parser, detect_stage, parse
    from .policy import Policy
    from .renderer import render
    from .toolset import Toolset, read_toolset

__version__ = "0.1.0"

__all__ = [
    "NOTICES", "Candidate", "Choice", "Constraint", "ConstraintError", "ContentDelta", "Dialect", "DialectError",
    "Event", "Finish", "Inference", "Markup", "Message", "Notice", "Parser", "Policy", "ReasoningDelta", "ReasoningEnd",
    "ReasoningStart", "Segment", "Stage", "StructureInfo", "TemplateError", "ToolCall", "ToolCallDelta", "ToolCallEnd",
    "ToolCallStart", "ToolStrictLevel", "ToolsError", "Toolset", "UnknownDialect", "__version__", "choose_dialect",
    "constrain", "detect_dialect", "detect_stage", "fold", "get_dialect", "infer_dialect", "list_dialects",
    "load_dialect", "parse", "prove_dialect", "read_toolset", "render", "structure_constraint", "structure_info",
]  # fmt: skip

# Names are imported on first use: few programs need all of them, and the command must begin before its imports to end
# quietly when these are interrupted.
_MODULES = {
    name: module
    for module, names in {
        "check": "load_dialect",
        "dialect.file": "Dialect",
        "dialect.registry": "get_dialect list_dialects",
        "errors": "ConstraintError DialectError TemplateError ToolsError UnknownDialect",
        "events": "NOTICES ContentDelta Event Finish Markup Notice ReasoningDelta ReasoningEnd"
        " ReasoningStart Stage ToolCallDelta ToolCallEnd ToolCallStart",
        "grammar": "Constraint StructureInfo ToolStrictLevel constrain structure_constraint structure_info",
        "infer": "Inference infer_dialect",
        "infer.choosing": "Choice choose_dialect prove_dialect",
        "infer.detect": "Candidate detect_dialect",
        "message": "Message Segment ToolCall fold",
        "parser": "Parser detect_stage parse",
        "policy": "Policy",
        "renderer": "render",
        "toolset": "Toolset read_toolset",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    elif any(module.partition(".")[0] == name for module in _MODULES.values()):
        value = import_module(f".{name}", __name__)  # as in `unspool.events.Event`
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
