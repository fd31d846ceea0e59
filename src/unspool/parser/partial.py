"""What is at a place where no marker matches fully: weak matches of calls, and markers that the output's end cuts."""

import msgspec

from ..dialect.markers import Marker
from .openings import Match


class Partial(msgspec.Struct, eq=False):
    """What is at a place where no marker matches fully.

    Attributes:
        weak: the first weak match of a call.
        cut: the first marker that the output's end cuts, if enough of it is there to be a marker.
    """

    weak: tuple[Marker, Match] | None = None
    cut: Marker | None = None
    _names: list[str | None] = []
    """The names of those cut markers that may count more than the weak match; ``None`` for other than calls."""

    def add_weak(self, o: Marker, match: Match) -> None:
        """Add a weak match."""
        self.weak = self.weak or (o, match)

    def add_cut(self, o: Marker, match: Match | None) -> None:
        """Add a marker that the output's end cuts."""
        if self.weak is None or o.pattern.weight >= self.weak[0].pattern.weight:
            self._names.append(None if match is None else match.fields.get("name"))

    def weak_alone(self) -> tuple[Marker, Match] | None:
        """The weak match, if all that may count more is a call of the same name."""
        weak = self.weak
        return weak if weak is not None and all(name == weak[1].fields.get("name") for name in self._names) else None
