"""Comparisons of the fake engine: rows as multisets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mt_core.base.rowset import BIGINT, RowSet
from mt_core.base.rowset import Column as ResultColumn
from mt_core.errors import Incomparable
from mt_core.tables.engine import Comparison, ComparisonResult
from tests.support.fake_tables import FakeSource, FakeStorage, Row, inside, version_at


def compare_rows(comparison: Comparison, storage: FakeStorage, source: FakeSource) -> ComparisonResult:
    """Return the differences between a table and its source. Each row is a separate bucket."""
    seen = comparison.vector.sources[0].version or {}
    is_there = seen.get("uuid") == source.uuid and version_at(seen) not in source.expired
    version = source.versions.get(version_at(seen)) if is_there else None
    if version is None:
        raise Incomparable(
            f"A version that {comparison.table} has read expired; REFRESH it.", source=source.uuid
        )
    names = [column.name for column in comparison.columns]

    def count(rows: Iterable[Row]) -> Counter[tuple[object, ...]]:
        chosen = (row for row in rows if _is_part(row, comparison))
        return Counter(tuple(row.get(name) for name in names) for row in chosen)

    table, query = count(storage.snapshots[comparison.snapshot_id].rows), count(version)
    sides = {"unexpected": table - query, "missing": query - table}
    differences = [[word, copies, *row] for word, more in sides.items() for row, copies in more.items()]
    shown = [] if comparison.in_buckets else sorted(differences, key=str)
    columns = (
        ResultColumn(name="difference"),
        ResultColumn(name="copies", type=BIGINT),
        *map(_column, names),
    )
    return ComparisonResult(
        differences=RowSet(columns=columns, rows=shown[: comparison.most]),
        different=sum(more.total() for more in sides.values()),
        rows=table.total(),
    )


def _is_part(row: Row, comparison: Comparison) -> bool:
    return inside(row, comparison.scope) and not inside(row, comparison.besides)


def _column(name: str) -> ResultColumn:
    return ResultColumn(name=name)
