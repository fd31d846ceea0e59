"""`WireProtocol`: what a protocol adds to a request in common terms."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ...wire.common import Failure, Writer
from ..chat_request import ChatRequest
from ..fields import Fields
from ..settings import Settings


class WireProtocol(ABC):
    """Reads the requests of one protocol, and makes the writers of its answers.

    Attributes:
        id_prefix: how the ids of responses begin.
        invalid_status: the HTTP status of a request with a wrong field.
        keeps_events: whether whole answers are written from events.
        error_body: writes the body of an answer that is an error.
    """

    id_prefix: ClassVar[str]
    invalid_status: ClassVar[int] = 400
    keeps_events: ClassVar[bool] = False
    error_body: ClassVar["staticmethod[[Failure], bytes]"]

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def read(self, fields: Fields) -> ChatRequest:
        """Read a request.

        Raises:
            BadRequest: names the field that is wrong, and what is allowed.
        """

    @abstractmethod
    def writer(self, request: ChatRequest, id: str, created: int) -> Writer:
        """The writer of an answer; ``created`` is in seconds."""
