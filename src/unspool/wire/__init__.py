"""The protocols' side: one list of events, or one `Message`, as the bytes of each wire protocol.

Nothing here does I/O or looks at a clock. Each protocol has a writer, made for one response; all have the same shape::

    writer = ChatWriter(id="chatcmpl-1", model="m", created=0)
    writer.start()                    # before any event
    writer.events(0, events)          # the events of a choice, as they come
    writer.finish(usage)              # after the last, or
    writer.error(Failure("…"))        # instead, if the engine fails
    writer.whole([message], usage)    # or all of it in one answer

Every method returns bytes that are ready to be sent. The modules' ``error_body`` makes the body of a response that is
an error from the first byte on. The concatenation of a stream equals its whole answer.
"""

from .agui import AguiWriter
from .candle import CandleWriter
from .chat import ChatWriter
from .coalesce import Coalescer
from .common import Failure, Usage, Writer
from .messages import MessagesWriter
from .mindie import MindieWriter
from .responses import ResponsesWriter
from .trace import TraceWriter

__all__ = [
    "AguiWriter",
    "CandleWriter",
    "ChatWriter",
    "Coalescer",
    "Failure",
    "MessagesWriter",
    "MindieWriter",
    "ResponsesWriter",
    "TraceWriter",
    "Usage",
    "Writer",
]
