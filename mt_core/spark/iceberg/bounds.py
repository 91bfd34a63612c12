"""Bounds: the minimum and maximum of key values, which Iceberg uses to prune files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import compute
from pyspark.sql.functions import max as greatest
from pyspark.sql.functions import min as least

from mt_core.base.identifiers import quote, string_literal
from mt_core.spark.iceberg.computed_rows import ComputedRows

EVERYWHERE = "true"
"""The condition that is true for every row."""
MOST_NAMED = 200
"""The maximum length of an IN list. Iceberg prunes by a longer list's minimum and maximum anyway."""
# Prefixes of types whose values have an exact text form in every time zone.
_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "string")
# Iceberg's names for these types, where they differ.
_NAMES = {"tinyint": "int", "smallint": "int", "bigint": "long"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A condition that a column is between `low` and `high`, or NULL; `type` is the column's SQL type.

    If it is not `nullable`, NULL is outside the bound.
    """

    column: str
    type: str
    low: Any
    high: Any
    nullable: bool = True

    def condition(self) -> str:
        """Return the bound as an SQL condition on rows with the alias `q`."""
        name, (low, high) = (
            f"q.{quote(self.column)}",
            (string_literal(str(end)) for end in (self.low, self.high)),
        )
        between = f"{name} BETWEEN CAST({low} AS {self.type}) AND CAST({high} AS {self.type})"
        return f"({name} IS NULL OR {between})" if self.nullable else between

    def among(self, values: Sequence[Any]) -> str:
        """Return the SQL condition that the column of rows `q` is one of *values*, which may include NULL."""
        name = f"q.{quote(self.column)}"
        listed = [
            f"CAST({string_literal(str(value))} AS {self.type})" for value in values if value is not None
        ]
        matches = f"{name} IN ({', '.join(listed)})"
        return f"({name} IS NULL OR {matches})" if None in values else matches

    def in_iceberg(self) -> dict[str, str | int]:
        """Return the bound as JSON, with the Iceberg name of its type."""
        low, high = (end if isinstance(end, int) else str(end) for end in (self.low, self.high))
        return {"column": self.column, "type": _NAMES.get(self.type, self.type), "low": low, "high": high}


def values_condition(values: ComputedRows, columns: Sequence[str]) -> str:
    """Return an SQL condition that is true for all rows `q` that match *values* in *columns*.

    The condition lists up to `MOST_NAMED` values of a column, because Iceberg can prune hidden partitions
    such as buckets only by exact values. For more values, it contains their bounds.
    """
    conditions = []
    for bound in bounds_of(values, columns):
        listed = [] if values.rows is None else values.rows[bound.column].unique().to_pylist()
        conditions.append(bound.among(listed) if 0 < len(listed) <= MOST_NAMED else bound.condition())
    return " AND ".join(conditions) or EVERYWHERE


def bounds_of(values: ComputedRows, columns: Sequence[str]) -> list[Bound]:
    """Return the bounds of *values* in *columns*.

    Columns of types without an exact text form, and columns with only NULL, have no bounds.
    """
    all_types = {field.name: field.dataType.simpleString() for field in values.schema.fields}
    types = {name: type_ for name, type_ in all_types.items() if name in columns and type_.startswith(_TYPES)}
    return [
        Bound(column=name, type=types[name], low=low, high=high)
        for name, (low, high) in _ends_of(values, types).items()
        if low is not None and high is not None
    ]


def condition_of(bounds: Sequence[Bound]) -> str:
    """Return *bounds* as an SQL condition on rows with the alias `q`."""
    return " AND ".join(bound.condition() for bound in bounds) or EVERYWHERE


def _ends_of(values: ComputedRows, names: Mapping[str, str]) -> Mapping[str, tuple[Any, Any]]:
    """Return the minimum and maximum of each column; both are None if it has only NULL."""
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
