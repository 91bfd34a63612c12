"""The type objects, constructors and column descriptions of PEP 249."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time

from mt_core.base.rowset import Column

Description = tuple[str, str, None, int | None, int | None, int | None, bool]


@dataclass(frozen=True, eq=False)
class TypeObject:
    """An object that equals the type codes of a group of column types.

    A type code is the root of the column's logical type.
    """

    roots: frozenset[str]

    def __eq__(self, other: object) -> bool:
        return other in self.roots if isinstance(other, str) else self is other

    __hash__ = object.__hash__


STRING = TypeObject(frozenset({"CHAR", "VARCHAR", "VARIANT"}))
BINARY = TypeObject(frozenset({"BINARY", "VARBINARY"}))
NUMBER = TypeObject(frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}))
DATETIME = TypeObject(
    frozenset(
        {
            "DATE",
            "TIME_WITHOUT_TIME_ZONE",
            "TIMESTAMP_WITHOUT_TIME_ZONE",
            "TIMESTAMP_WITH_TIME_ZONE",
            "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
        }
    )
)
ROWID = TypeObject(frozenset())

Date, Time, Timestamp, Binary = date, time, datetime, bytes
DateFromTicks, TimestampFromTicks = date.fromtimestamp, datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> time:  # noqa: N802 - the standard names it so
    """Return the local time of day at *ticks* seconds after the epoch."""
    return datetime.fromtimestamp(ticks).time()  # noqa: DTZ006 - local time by the standard


def description_of(column: Column) -> Description:
    """Return the entry of *column* in `Cursor.description`."""
    kind, extras = column.type, column.type.extras
    return (
        column.name,
        kind.root,
        None,
        extras.get("length"),
        extras.get("precision"),
        extras.get("scale"),
        kind.nullable,
    )
