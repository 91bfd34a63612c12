"""Data and delete files written by the driver, with Iceberg's own writers for Spark rows.

For a small change, a Spark job would take several times longer, because each job is planned, compiled and
scheduled separately.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.errors import QueryFailed
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.jvm_objects import own_class

WRITTEN_FILES = "freshtable.iceberg.WrittenFiles"
_NULL = "java.lang.NullPointerException"

Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriter:
    """Writes files of a storage table.

    `types` maps the names of the columns to Iceberg types, and `required` contains the NOT NULL columns.
    `partition` contains the partition columns. It is None if any partition transform is not `identity`. Rows
    are passed as a Java list, as returned by `collected`.
    """

    session: SparkSession
    table: Any
    types: Mapping[str, str]
    required: tuple[str, ...]
    partition: tuple[str, ...] | None

    @classmethod
    def of(cls, session: SparkSession, table: Any) -> Self:
        facts = json.loads(own_class(session, WRITTEN_FILES).facts(table))
        fields, spec = facts["schema"]["fields"], facts["spec"]["fields"]
        names = {field["id"]: field["name"] for field in fields}
        by_value = all(each["transform"] == "identity" and each["source-id"] in names for each in spec)
        return cls(
            session=session,
            table=table,
            types={field["name"]: _base(field["type"]) for field in fields},
            required=tuple(field["name"] for field in fields if field["required"]),
            partition=tuple(names[each["source-id"]] for each in spec) if by_value else None,
        )

    def stores(self, columns: StructType) -> bool:
        """Return whether *columns* are exactly the table's columns, in order and with their types."""
        return bool(self._files.stores(self.table, columns.simpleString()))

    def data_file(self, rows: Any, values: Values = ()) -> Any:
        """Write *rows* to a new data file in the partition with *values*."""
        return self._written(self._files.data, rows, json.dumps(values))

    def equality_deletes(self, rows: Any, keys: Sequence[str], values: Values = ()) -> Any:
        """Write *rows* as an equality delete file in the partition with *values*.

        The rows have the columns *keys*.
        """
        return self._written(self._files.equalityDeletes, rows, json.dumps(keys), json.dumps(values))

    def position_deletes(self, places: DataFrame) -> Any:
        """Write *places*, sorted pairs of file and position, to a delete file of an unpartitioned table."""
        return self._written(self._files.positionDeletes, collected(places))

    @property
    def _files(self) -> Any:
        return own_class(self.session, WRITTEN_FILES)

    def _written(self, write: Callable[..., Any], rows: Any, *arguments: str) -> Any:
        """Return the file that *write* writes. Raises QueryFailed if a NOT NULL column has NULL."""
        try:
            return write(self.table, rows, *arguments)
        except SPARK_ERRORS as cause:
            if _NULL in java_classes(cause) and self.required:
                names = ", ".join(map(quote, self.required))
                raise QueryFailed(
                    f"A row of {self.table.name()} has NULL in a column that is NOT NULL: one of {names}."
                ) from cause
            raise


def _base(type_: str | Mapping[str, Any]) -> str:
    """Return the name of *type_*, a type in Iceberg's JSON, without its parameters."""
    return type_.partition("(")[0] if isinstance(type_, str) else "nested"


def collected(rows: DataFrame) -> Any:
    """Return the rows of a frame as a Java list of InternalRow.

    If the plan itself contains the rows, like a local relation, no job is started.
    """
    return own_class(rows.sparkSession, WRITTEN_FILES).collected(rows._jdf)
