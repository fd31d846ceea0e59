"""`WireProtocol`: the base class of protocols. A protocol reads requests and makes the writers of answers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from ...wire.common import Failure, Writer
from ..chat_request import ChatRequest
from ..fields import Fields
from ..sealed import Seal
from ..server_tools import NOTHING, Offer, OwnServer, ServerTools
from ..settings import Settings


class WireProtocol(ABC):
    """Reads the requests of one protocol, and makes the writers of its answers.

    Attributes:
        invalid_status: the HTTP status for a request with a wrong field.
        keeps_events: whether answers that are not streamed are written from events.
        raw: whether outputs are not parsed.
        result_media: whether results of the server's tools have their media for the client.
    """

    id_prefix: ClassVar[str]
    invalid_status: ClassVar[int] = 400
    keeps_events: ClassVar[bool] = False
    raw: ClassVar[bool] = False
    result_media: ClassVar[bool] = False
    error_body: ClassVar["staticmethod[[Failure], bytes]"]

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def servers(self, fields: Fields) -> Collection[str] | None:
        """The labels of the servers whose tools the request may use; ``None``: any. Other fields are not checked."""
        return ()

    def own_servers(self, fields: Fields) -> Sequence[OwnServer]:
        """The tool servers that the request itself names, with their addresses."""
        return ()

    def seal_for(self, caller: bytes) -> Seal | None:
        """The seal for the reasoning of a client with this API key, or ``None``."""
        seal = self.settings.seal
        return None if seal is None else seal.bound_to(caller)

    @abstractmethod
    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        """Read a request, which is offered the server's tools."""

    def sent_back(self, rounds: Sequence[dict[str, Any]], tools: ServerTools) -> list[list[dict[str, Any]]]:
        """The forms in which `read` sees an answer of several rounds when a client sends it back, besides the form in
        which it was written. Calls and results may be divided into messages differently."""
        return []

    @abstractmethod
    def writer(self, request: ChatRequest, id: str, created: int) -> Writer:
        """Make the writer of an answer; ``created`` is a time in seconds."""
