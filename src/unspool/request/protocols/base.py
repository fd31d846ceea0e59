"""`WireProtocol`: the base class of protocols, which read requests and make the writers of answers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from ...sealed import Seal
from ...wire.common import Failure, Writer
from ..chat_request import ChatRequest
from ..fields import Fields
from ..server_tools import NOTHING, Offer, OwnServer, ServerTools
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

    def servers(self, fields: Fields) -> Collection[str] | None:
        """The labels of the tool servers whose tools the request may use; ``None``: any. Looks at nothing else."""
        return ()

    def own_servers(self, fields: Fields) -> Sequence[OwnServer]:
        """The tool servers that the request itself names by their addresses.

        Raises:
            BadRequest: a field is wrong.
        """
        return ()

    def seal_for(self, caller: bytes) -> Seal | None:
        """What seals and opens reasoning for a client with this API key; ``None``: nothing does."""
        seal = self.settings.seal
        return None if seal is None else seal.bound_to(caller)

    @abstractmethod
    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        """Read a request.

        Args:
            fields: its body.
            offer: what the server has of tools.

        Raises:
            BadRequest: names the field that is wrong, and what is allowed.
        """

    def sent_back(self, rounds: Sequence[dict[str, Any]], tools: ServerTools) -> list[list[dict[str, Any]]]:
        """How `read` sees an answer of several rounds where a client sends it back, besides as it was written: calls
        and results that are together may do so in any messages.

        Args:
            rounds: the answer's messages.
            tools: the server's.
        """
        return []

    @abstractmethod
    def writer(self, request: ChatRequest, id: str, created: int) -> Writer:
        """The writer of an answer; ``created`` is in seconds."""
