"""Standing rows: the rows of a changelog after all changes so far."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from mt_core.base.rowset import RowKind
from mt_core.client.pages import ResultPage
from mt_core.errors import MtError


class StandingRows:
    """The current rows of a changelog, in order of first arrival.

    A row may be deleted before it is inserted, because changes are not ordered.
    """

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, Sequence[Any]]] = {}
        self._is_whole = True

    def apply(self, kind: RowKind, row: Sequence[Any]) -> None:
        """Apply one change. Ignores the deletion of a dropped row."""
        key = json.dumps(row, default=str)
        count = self._counts.get(key, (0, row))[0] + (1 if kind.adds else -1)
        if count < 0 and not self._is_whole:
            return
        if count:
            self._counts[key] = (count, row)
        else:
            del self._counts[key]

    def keep(self, most: int) -> int:
        """Drop all but the last *most* distinct rows and return how many were dropped.

        Later changes of dropped rows are ignored.
        """
        forgotten = max(0, len(self._counts) - most)
        for key in list(islice(self._counts, forgotten)):
            del self._counts[key]
        self._is_whole = self._is_whole and not forgotten
        return forgotten

    def all(self) -> list[Sequence[Any]]:
        """Return the rows, each repeated as often as it occurs."""
        return [row for count, row in self._counts.values() for _ in range(count)]


def standing_page(
    pages: Iterable[ResultPage], most: int, on_left_out: Callable[[], object]
) -> Iterator[ResultPage]:
    """Yield one page with the last *most* standing rows of a changelog, even after an error or interrupt.

    If rows were dropped, *on_left_out* is called first.
    """
    standing, iterator, error = StandingRows(), iter(pages), None
    first, left_out = next(iterator), 0
    try:
        for page in chain((first,), iterator):
            for kind, row in zip(page.kinds or (), page.rows, strict=True):
                standing.apply(kind, row)
            left_out += standing.keep(most)
    except (MtError, KeyboardInterrupt) as caught:
        error = caught
    if left_out:
        on_left_out()
    yield replace(first, rows=[list(row) for row in standing.all()], kinds=None, is_last=error is None)
    if error is not None:
        raise error
