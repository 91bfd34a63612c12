"""The addresses to which the view of the graph leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from mt_core.gateway.facts.graph import DOWN, OF, UP
from mt_core.tables.overview.graph import MATERIALIZED_TABLE, Node


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses below *base*, that of the page."""

    base: str

    def around(self, name: str, up: int | None = None, down: int | None = None) -> str:
        """Return the address of the graph around *name*, with these levels of readers and sources."""
        changed = {
            parameter.name: str(number)
            for parameter, number in ((UP, up), (DOWN, down))
            if number is not None and number != parameter.schema["default"]
        }
        return f"{self.base}/graph?{urlencode({OF.name: name, **changed})}"

    def namespace(self, name: str) -> str:
        """Return the address of the tables in a namespace."""
        return f"{self.base}/?{urlencode({'in': name})}"

    def node(self, node: Node) -> str:
        """Return the address of a materialized table, or of the graph around another source."""
        if node.kind != MATERIALIZED_TABLE:
            return self.around(node.name)
        if node.facts is None:
            return f"{self.base}/t/{quote(node.name, safe='')}"
        return f"{self.base}/tables/{quote(node.facts.table_id, safe='')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """How many levels are `shown` of those that `exist`, and the addresses with one more and one fewer.

    An address is None if there are no more, or no fewer.
    """

    shown: int
    exist: int
    more: str | None
    fewer: str | None

    @classmethod
    def of(cls, wanted: int, distances: Mapping[str, int], address: Callable[[int], str]) -> Levels:
        """Return the levels of the nodes with these *distances*; *address* returns that of some levels."""
        exist = max(distances.values(), default=0)
        shown = min(wanted, exist)
        return cls(
            shown=shown,
            exist=exist,
            more=address(shown + 1) if shown < exist else None,
            fewer=address(shown - 1) if shown else None,
        )
