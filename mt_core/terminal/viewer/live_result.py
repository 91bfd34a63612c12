"""A live result: rows that can be viewed while more arrive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mt_core.base.plain_text import plain_rows
from mt_core.base.rowset import STRING, Column
from mt_core.client.pages import ResultPage
from mt_core.client.session import Closing
from mt_core.errors import MtError
from mt_core.terminal.output.lines import OP, with_numbers
from mt_core.terminal.output.standing_rows import StandingRows
from mt_core.terminal.output.texts import Row
from mt_core.terminal.viewer.spool import Spool, Values

_JOIN_S = 5.0


class Shown(StrEnum):
    """Which rows of a result are shown.

    FIRST and LAST show the first or the last rows, CHANGES shows all changes up to the last one, and STANDING
    shows the rows after all changes.
    """

    FIRST = "first"
    LAST = "last"
    CHANGES = "changes"
    STANDING = "standing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An immutable view of rows. `rows` returns a range of positions, `pick` the rows at given positions.

    `left_out` is the number of rows that are omitted, because they are old or exceed the limit. `came` is the
    number of rows, or changes, that have arrived. `more` tells whether the result exceeds the limit,
    `has_ended` whether no more rows will arrive.
    """

    count: int
    columns: Sequence[Column]
    rows: Callable[[int, int], list[Values]]
    pick: Callable[[Sequence[int]], list[Values]]
    left_out: int = 0
    came: int = 0
    more: bool = False
    has_ended: bool = False
    error: MtError | None = None

    def read(self, start: int, stop: int, order: Sequence[int] | None = None) -> list[Row]:
        """Return the rows at positions *start* to *stop* (exclusive) as strings.

        With *order*, these are positions in *order*, which contains the positions of the rows.
        """
        values = self.rows(start, stop) if order is None else self.pick(order[start:stop])
        return list[Row](plain_rows(self.columns, values))


class LiveResult(Closing):
    """Reads *pages* in a separate thread, which `read_on` starts, and shows up to *most_rows* rows.

    Rows are dropped only when another snapshot is taken. After a snapshot, up to *most_rows* more rows are
    read, and then the gateway waits. Raises ConfigError if the rows of *first* cannot be stored.
    """

    def __init__(self, first: ResultPage, pages: Iterator[ResultPage], shown: Shown, most_rows: int) -> None:
        self._pages, self._shown, self._most_rows = pages, shown, most_rows
        self._spool, self._standing = Spool(), StandingRows()
        self._changed = threading.Condition()
        self._closed = self._more = self.has_ended = False
        self._looked_at = self._left_out = self._came = 0
        self.error: MtError | None = None
        op = (Column(name=OP, type=STRING),) if shown is Shown.CHANGES else ()
        self.columns = (*op, *first.columns)
        self._take(first)
        self._thread = threading.Thread(target=self._work, name="rows", daemon=True)

    @property
    def is_followed(self) -> bool:
        """Whether the view should follow the newest rows."""
        return self._shown is not Shown.FIRST

    def read_on(self) -> None:
        """Start to read the pages after the first one. Idempotent."""
        if self._thread.ident is None:
            self._thread.start()

    def snapshot(self, kept: Snapshot | None = None) -> Snapshot:
        """Return the current rows. Earlier snapshots become invalid, except *kept*."""
        with self._changed:
            taken = self._of_standing() if self._shown is Shown.STANDING else self._of_spool(kept)
            self._changed.notify_all()
            return replace(
                taken, more=self._more, has_ended=self.has_ended, error=self.error, came=self._came
            )

    def close(self) -> None:
        """Stop reading and remove the rows."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        self._spool.close()

    def _of_spool(self, kept: Snapshot | None) -> Snapshot:
        end = self._spool.end
        start = max(0, end - self._most_rows)
        self._spool.drop(start if kept is None else kept.left_out)
        self._looked_at = end

        return Snapshot(
            count=end - start,
            columns=self.columns,
            rows=lambda begin, stop: self._spool.rows(start + begin, min(start + stop, end)),
            pick=lambda positions: self._spool.pick(start + position for position in positions),
            left_out=start,
        )

    def _of_standing(self) -> Snapshot:
        rows = self._standing.all()

        return Snapshot(
            count=len(rows),
            columns=self.columns,
            rows=lambda begin, stop: rows[begin:stop],
            pick=lambda positions: [rows[position] for position in positions],
            left_out=self._left_out,
        )

    def _work(self) -> None:
        try:
            for page in self._pages:
                if not self._take(page):
                    break
        except MtError as error:
            self.error = error
        finally:
            self.has_ended = True

    def _take(self, page: ResultPage) -> bool:
        """Add the rows of *page*. Return whether more rows are needed."""
        if self._shown is Shown.STANDING:
            with self._changed:
                for kind, row in zip(page.kinds or (), page.rows, strict=True):
                    self._standing.apply(kind, row)
                self._came += len(page.rows)
                self._left_out += self._standing.keep(self._most_rows)
            return not self._closed
        rows: list[Values] = [*with_numbers(page).rows]
        room = self._most_rows - self._spool.end
        self._more = self._shown is Shown.FIRST and len(rows) > room
        if self._more:
            rows = rows[:room]
        if self._shown is Shown.CHANGES:
            kinds = ["+I"] * len(rows) if page.kinds is None else [kind.value for kind in page.kinds]
            rows = [[kind, *row] for kind, row in zip(kinds, rows, strict=True)]
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room)
            if not self._closed:
                self._spool.add(rows)
                self._came += len(rows)
            return not (self._closed or self._more)

    @property
    def _has_room(self) -> bool:
        return self._shown is Shown.FIRST or self._spool.end - self._looked_at < self._most_rows
