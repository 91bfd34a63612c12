"""Standing rows: those that a result has after all of its changes so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mt_core.rowset import RowKind


class StandingRows:
    """The rows of a changelog as they stand, in the order in which each came first.

    A row may be taken away before it comes: the order of changes means nothing.
    """

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, Sequence[Any]]] = {}

    def apply(self, kind: RowKind, row: Sequence[Any]) -> None:
        """Change the rows by one change."""
        key = json.dumps(row, default=str)
        count = self._counts.get(key, (0, row))[0] + (1 if kind.adds else -1)
        if count:
            self._counts[key] = (count, row)
        else:
            del self._counts[key]

    def all(self) -> list[Sequence[Any]]:
        """Return the rows, each as often as it stands."""
        return [row for count, row in self._counts.values() for _ in range(count)]
