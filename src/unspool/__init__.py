"""Unspool a model's token stream into reasoning, content and tool calls."""

from .check import load_dialect
from .dialect import Dialect
from .errors import DialectError, UnknownDialect
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
from .registry import get_dialect, list_dialects
from .render import render
from .stage import detect_stage
