"""The fake engine's sources: tables with versions, and views that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from queue import SimpleQueue

from mt_core.errors import QueryFailed
from mt_core.model.table import Column
from mt_core.tables.engine import Query
from tests.support.fake_housekeeping import FakeHousekeeping
from tests.support.fake_queries import full_source
from tests.support.fake_tables import NO_COMMIT, FakeSource, Row


class FakeSources(FakeHousekeeping):
    """Source tables and views by full name, which tests create and change. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[str, FakeSource] = {}
        self.views: dict[str, str] = {}
        # Why a source cannot be read ("" if it does not respond), and the names of the sources that were
        # inspected.
        self.unread: dict[str, str] = {}
        self.looked_at: list[str] = []
        # The names of sources that received rows, for tests that wait for this.
        self.committed: SimpleQueue[str] = SimpleQueue()
        self.now: Callable[[], datetime] = lambda: datetime(2026, 3, 1, 12, tzinfo=UTC)

    def create_source(self, name: str, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> None:
        """Add a source table. If *rows* is empty, it has no commit."""
        number = next(self._numbers)
        guessed = columns or [
            Column(name=key, type="int" if isinstance(rows[0][key], int) else "string") for key in rows[0]
        ]
        self.sources[name] = FakeSource(
            uuid=f"source-{number}",
            columns=tuple(guessed),
            versions={NO_COMMIT: (), number: tuple(rows)} if rows else {NO_COMMIT: ()},
            current=number if rows else NO_COMMIT,
            parents={number: None},
            committed={number: self.now()},
        )

    def alter_source(self, name: str, columns: Sequence[Column]) -> None:
        """Change a source's columns without a commit. Columns with the same name are the same columns."""
        with self._lock:
            self.sources[name].columns = tuple(columns)
            self.sources[name].schema += 1

    def commit(self, name: str, rows: Sequence[Row], *, compaction: bool = False) -> int:
        """Replace all rows of a source, and return the new version."""
        with self._lock:
            source, number = self.sources[name], next(self._numbers)
            source.versions[number], source.parents[number] = tuple(rows), source.current
            source.committed[number] = self.now()
            if compaction:
                source.replaces.add(number)
            source.current = number
        self.committed.put(name)
        return number

    def roll_back(self, name: str, version: int) -> None:
        """Make an older version of a source current."""
        self.sources[name].current = version

    def _path(self, query: Query) -> tuple[str, ...]:
        full = full_source(query)
        below = self.views.get(full)
        return (full,) if below is None else (full, *self._path(replace(query, text=below)))

    def _source(self, query: Query) -> tuple[str, FakeSource]:
        full = self._path(query)[-1]
        stored = {str(identifier): storage for identifier, storage in self.storages.items()}
        if full in stored:
            return full, stored[full].as_source()
        if full in self.sources:
            return full, self.sources[full]
        raise QueryFailed(
            f"table {full} cannot be found", error_class="TABLE_OR_VIEW_NOT_FOUND", line=1, position=15
        )
