"""Bounds: the least and the greatest of values, by which Iceberg leaves files out
that can hold none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import compute
from pyspark.sql.functions import max as greatest
from pyspark.sql.functions import min as least

from mt_core.base.identifiers import quote, string_literal
from mt_core.spark.iceberg.computed_rows import Computed

EVERYWHERE = "true"
"""The condition that every row meets."""
MOST_NAMED = 200
"""Values up to which they are named: of a longer list Iceberg looks at the least and the greatest alone."""
# Types, by the start of their texts, that a text holds exactly, whatever the time zone is.
_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "string")
# Their names in Iceberg, where they are others.
_NAMES = {"tinyint": "int", "smallint": "int", "bigint": "long"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Values of a column, of a type in SQL, are NULL or between `low` and `high`."""

    column: str
    type: str
    low: Any
    high: Any

    def condition(self) -> str:
        """Return the condition in SQL that rows `q` meet."""
        name, (low, high) = (
            f"q.{quote(self.column)}",
            (string_literal(str(end)) for end in (self.low, self.high)),
        )
        return (
            f"({name} IS NULL OR {name} BETWEEN CAST({low} AS {self.type}) AND CAST({high} AS {self.type}))"
        )

    def among(self, values: Sequence[Any]) -> str:
        """Return the condition in SQL that rows `q` meet of which the value is one of *values*,
        of which NULL may be one.
        """
        name = f"q.{quote(self.column)}"
        listed = [
            f"CAST({string_literal(str(value))} AS {self.type})" for value in values if value is not None
        ]
        if self.type.startswith("string"):
            # Of texts, Iceberg 1.11.0 cannot look for NULL, the value of a partition,
            # in a list (apache/iceberg#17014).
            found = f"({' OR '.join(f'{name} = {each}' for each in listed)})"
        else:
            found = f"{name} IN ({', '.join(listed)})"
        return f"({name} IS NULL OR {found})" if None in values else found

    def in_iceberg(self) -> dict[str, str | int]:
        """Return the bound in JSON with the type in Iceberg's words."""
        low, high = (end if isinstance(end, int) else str(end) for end in (self.low, self.high))
        return {"column": self.column, "type": _NAMES.get(self.type, self.type), "low": low, "high": high}


def named_values(values: Computed, columns: Sequence[str]) -> str:
    """Return a condition in SQL that rows `q` meet with values of *values* in *columns*:
    one of few values, or within bounds.

    Hidden partitions, such as buckets, are found by the values alone.
    """
    conditions = []
    for bound in bounds_of(values, columns):
        found = [] if values.rows is None else values.rows[bound.column].unique().to_pylist()
        conditions.append(bound.among(found) if 0 < len(found) <= MOST_NAMED else bound.condition())
    return " AND ".join(conditions) or EVERYWHERE


def bounds_of(values: Computed, columns: Sequence[str]) -> list[Bound]:
    """Return the bounds that rows meet with values of *values* in *columns*."""
    given = {field.name: field.dataType.simpleString() for field in values.schema.fields}
    types = {name: type_ for name, type_ in given.items() if name in columns and type_.startswith(_TYPES)}
    return [
        Bound(column=name, type=types[name], low=low, high=high)
        for name, (low, high) in _ends_of(values, types).items()
        if low is not None and high is not None
    ]


def condition_of(bounds: Sequence[Bound]) -> str:
    """Return the condition in SQL that rows `q` meet."""
    return " AND ".join(bound.condition() for bound in bounds) or EVERYWHERE


def _ends_of(values: Computed, names: Mapping[str, str]) -> Mapping[str, tuple[Any, Any]]:
    """Return the lowest and the highest value of columns, None without any."""
    if values.rows is not None:
        ends = {name: compute.min_max(values.rows[name]).as_py() for name in names}
        return {name: (each["min"], each["max"]) for name, each in ends.items()}
    if not names:
        return {}
    row = values.frame.agg(*(end(quote(name)) for name in names for end in (least, greatest))).collect()[0]
    return dict(_pairs(names, row))


def _pairs(names: Mapping[str, str], row: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for number, name in enumerate(names):
        yield name, (row[2 * number], row[2 * number + 1])
