"""Writes events, or a `Message`, as the bytes of each wire protocol.

Nothing here does I/O or reads a clock. Each protocol has a writer, made for one response; all have the same
interface::

    writer = ChatWriter(id="chatcmpl-1", model="m", created=0)
    writer.start()                    # before any event
    writer.events(0, events)          # the events of a choice, as they come
    writer.finish(usage)              # after the last, or
    writer.error(Failure("…"))        # instead, if the engine fails
    writer.whole([message], usage)    # or all of it in one answer

Every method returns bytes that are ready to send. Each module's ``error_body`` makes the body of a response that is
an error from the start. A stream contains the same as the whole answer.
"""

from .agui import AguiWriter
from .candle import CandleWriter
from .chat import ChatWriter
from .coalesce import Coalescer
from .common import Failure, Usage, Writer
from .completion import CompletionWriter
from .messages import MessagesWriter
from .mindie import MindieWriter
from .responses import ResponsesWriter
from .trace import TraceWriter

__all__ = [
    "AguiWriter", "CandleWriter", "ChatWriter", "Coalescer", "CompletionWriter", "Failure", "MessagesWriter",
    "MindieWriter", "ResponsesWriter", "TraceWriter", "Usage", "Writer",
]  # fmt: skip
