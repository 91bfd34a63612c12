"""The metrics of tables: how many there are in each state, and the instants of each table.

The overview has judged all tables already. Its facts objects stay the same as long as what they say is right,
so the lines of a table are written once for each, and a scrape joins them.

The number of series is limited, however many tables there are: up to `most` of the tables whose names match
have series of their own, the oldest first. So a table that has series keeps them: a newer table never
displaces it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import translate
from heapq import nsmallest

from mt_core.base.identifiers import namespace_text
from mt_core.metrics import families
from mt_core.metrics.exposition import gauge_text, label_text, sample_line
from mt_core.metrics.families import TABLE_LABELS, Family
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus, SuspendedBy
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable

_OF_TABLES = (
    families.TABLE_SHOWS,
    families.TABLE_LATE_AT,
    families.TABLE_SUSPENDED,
    families.TABLE_FAILING,
)
_NOTHING = "(?!)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSelection:
    """Which tables have series: up to `most` of those whose names match one of `patterns`.

    A pattern is compared with the full name without quotes. `*` stands for any text, `?` for a character.
    """

    patterns: tuple[str, ...] = ("*",)
    most: int = 1000


@dataclass(frozen=True, slots=True)
class _Series:
    """The lines of a table, one for each family of `_OF_TABLES`, "" if it has none.

    They are right as long as the overview returns the same *facts* object.
    """

    facts: TableFacts
    lines: tuple[str, ...]


class TableGauges:
    """Writes the gauges of tables. Thread-safe."""

    def __init__(self, selection: TableSelection) -> None:
        self._most = selection.most
        self._matches = re.compile("|".join(map(translate, selection.patterns)) or _NOTHING).match
        # What the last scrape wrote, by table id.
        self._series: dict[str, _Series] = {}

    def text(self, every: Sequence[TableFacts | UnreadableTable]) -> str:
        """Return the text of the families for *every* table of the overview."""
        tables = [each for each in every if isinstance(each, TableFacts)]
        matching = [table for table in tables if self._matches(".".join(table.identifier.parts))]
        shown = matching if len(matching) <= self._most else nsmallest(self._most, matching, key=_age)
        self._series = series = {table.table_id: self._series_of(table) for table in shown}
        texts = [
            *_counts(tables),
            _count(families.TABLES_UNREADABLE, len(every) - len(tables)),
            _count(families.TABLES_WITHOUT_SERIES, len(matching) - len(shown)),
            *(
                gauge_text(family, (each.lines[place] for each in series.values()))
                for place, family in enumerate(_OF_TABLES)
            ),
        ]
        return "".join(texts)

    def _series_of(self, table: TableFacts) -> _Series:
        before = self._series.get(table.table_id)
        return before if before is not None and before.facts is table else _Series(table, _lines(table))


def _age(table: TableFacts) -> tuple[datetime, str]:
    return table.created_at, table.table_id


def _counts(tables: Sequence[TableFacts]) -> Iterator[str]:
    states = Counter((table.state, table.mode) for table in tables)
    yield gauge_text(
        families.TABLES,
        (
            sample_line(families.TABLES, states[state, mode], label_text(families.TABLES.labels, state, mode))
            for state in State
            for mode in RefreshMode
        ),
    )
    faults = Counter(table.fault for table in tables if table.state is State.LATE)
    yield gauge_text(
        families.TABLES_LATE,
        (
            sample_line(families.TABLES_LATE, faults[fault], label_text(families.TABLES_LATE.labels, fault))
            for fault in Fault
            if fault is not Fault.WRITER
        ),
    )
    yield _count(families.TABLES_SILENT, sum(table.fault is Fault.WRITER for table in tables))


def _count(family: Family, number: int) -> str:
    return gauge_text(family, [sample_line(family, number)])


def _lines(table: TableFacts) -> tuple[str, ...]:
    name = table.identifier
    labels = label_text(TABLE_LABELS, name.catalog, namespace_text(name.namespace), name.name)
    values = (
        _seconds(table.shows),
        _seconds(table.late_at),
        int(table.status is RefreshStatus.SUSPENDED),
        1 if _is_failing(table) else None,
    )
    return tuple(
        "" if value is None else sample_line(family, value, labels)
        for family, value in zip(_OF_TABLES, values, strict=True)
    )


def _seconds(instant: datetime | None) -> float | None:
    return None if instant is None else instant.timestamp()


def _is_failing(table: TableFacts) -> bool:
    if table.suspended_by is not None:
        return table.suspended_by is not SuspendedBy.USER
    return table.state is State.FAILING or (table.last is not None and table.last.status is RunStatus.FAILED)
