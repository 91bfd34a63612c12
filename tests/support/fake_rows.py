"""FakeRows: the rows of a query that runs until a test ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from mt_core.base.rowset import INT, Column, PageForm, RowKind
from mt_core.errors import Canceled, MtError

WAIT_S = 60.0
ONE_INT = (Column(name="a", type=INT),)


class FakeRows:
    """Rows that the test adds until `end`. Thread-safe.

    Records `released`, `stopped` and `closed`. *kinds* are the row kinds of a changelog; without them, rows
    are only added.
    """

    def __init__(
        self,
        *rows: list[Any],
        columns: Sequence[Column] = ONE_INT,
        kinds: Sequence[RowKind] | None = None,
        endless: bool = False,
    ) -> None:
        self.columns, self.endless = columns, endless
        self.changelog, self._kinds = kinds is not None, kinds
        self.running = True
        self.released, self.stopped, self.closed = 0, False, False
        self._rows = list(rows)
        self._asked = 0
        self._error: MtError | None = None
        self._changed = threading.Condition()
        self._callbacks: list[Callable[[MtError | None], None]] = []

    def add(self, *rows: list[Any]) -> None:
        """Add rows."""
        with self._changed:
            self._rows += rows
            self._changed.notify_all()

    def wait_until_read(self, count: int) -> None:
        """Wait until the reader has the first *count* rows and requests the next ones."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._asked >= count, WAIT_S), f"nobody read {count} rows"

    def end(self, error: MtError | None = None) -> None:
        """End the query, with *error* if it failed."""
        with self._changed:
            self.running, self._error = False, error
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(error)

    def available(self, start: int, size: int, timeout_s: float) -> int:
        with self._changed:
            self._asked = max(self._asked, start)
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._rows) > start or not self.running, timeout_s)
            return len(self._rows[start : start + size])

    def page(self, start: int, size: int) -> list[list[Any]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._rows) >= start + size or not self.running, WAIT_S)
            found = self._rows[start : start + size]
        if self._error is not None and len(found) < size:
            raise self._error
        return found

    def kinds(self, start: int, size: int) -> list[RowKind]:
        found = self.page(start, size)
        return list(self._kinds or [RowKind.INSERT] * (start + size))[start : start + len(found)]

    def encoded(self, start: int, size: int, form: PageForm) -> bytes | memoryview | None:
        """Return None, because these rows have no encoded form."""
        return None

    def release(self, before: int) -> None:
        self.released = before

    def on_end(self, callback: Callable[[MtError | None], None]) -> None:
        if self.running:
            self._callbacks.append(callback)
        else:
            callback(self._error)

    def abort(self, error: MtError) -> None:
        if self.running:
            self.stopped = True
            self.end(error)

    def close(self) -> None:
        self.abort(Canceled("The rows were closed."))
        self.closed = True
