"""Changelogs: the rows of a query in streaming mode, each with how it changes the result before it."""

from __future__ import annotations

from collections.abc import Iterable

from mt_core.base.rowset import ROW_KIND, Column, LogicalType, RowKind
from mt_core.client.exceptions import NotSupportedError
from mt_core.client.reader import Row

Change = tuple[RowKind, Row]
KIND = Column(name=ROW_KIND, type=LogicalType(root="TINYINT", nullable=False))
"""The column of an Arrow page that has the codes of the kinds."""


def changes(rows: Iterable[Row]) -> list[Change]:
    """Return *rows*, whose last value is the code of their kind, as changes."""
    return [(RowKind.of(row[-1]), row[:-1]) for row in rows]


def refused() -> NotSupportedError:
    """Return the error of a program that reads the rows of a changelog as if they were only added."""
    return NotSupportedError(
        "The rows of this result change others that were given before: read them by fetch_changes(), which says how, or run the "
        "query in batch mode: SET 'execution.runtime-mode' = 'batch'."
    )
