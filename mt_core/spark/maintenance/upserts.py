"""Upserts: rows replaced by key in one commit, an equality delete beside the new rows, for which no file of the table is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Self
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from mt_core.identifiers import quote
from mt_core.model.storage import EQUALITY_DELETE, UPSERT
from mt_core.spark.driver.jvm_objects import (
    call_as,
    java_class,
    java_integers,
    java_list,
    java_strings,
    static_member,
    text_map,
)
from mt_core.spark.maintenance.replacement import Replacement
from mt_core.spark.maintenance.row_images import computed

MOST_KEYS = 10_000
"""Keys up to which they, and the rows that come, go through the driver."""
MOST_ROWS = 100_000
MOST_PARTITIONS = 50
"""Partitions up to which each gets files of its own, one after the other."""
# Types of which equal values are the same for Spark and for Iceberg; not those of doubles, with NaN and two zeros.
_COMPARED = frozenset({"boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "decimal", "binary"})
# Types of which Iceberg reads the value of a partition from a text, None from this one.
_NAMED = frozenset({"boolean", "int", "long", "date", "string", "decimal"})
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ICEBERG = "org.apache.iceberg"
_FORMATS = ("write.delete.format.default", "write.format.default")

Values = tuple[str | None, ...]


def upserted(table: Any, branch: str, replacement: Replacement, summary: Mapping[str, str]) -> bool:
    """Carry *replacement* out on *branch* of Iceberg's *table* by one commit, whose snapshot has *summary*.

    False, and nothing is committed, if the table is not to be changed that way, or its columns or the number of rows forbid it.
    """
    session = replacement.rows.sparkSession
    if not is_upserted(session, table):
        return False
    target = _Target.of(session, table, text_map(session, table.properties()))
    keys = target.keys_of(replacement)
    if keys is None:
        return False
    given = [quote(key) for key in keys]
    gone = session.table(replacement.gone).select(*given).limit(MOST_KEYS + 1)
    parts = target.parts(gone, replacement.rows.limit(MOST_ROWS + 1))
    if parts is None:
        return False
    commit = table.newRowDelta().toBranch(branch)
    for part in parts:
        if len(part.rows):
            commit.addRows(target.data_file(part))
        if len(part.gone):
            commit.addDeletes(target.delete_file(part, keys))
    for key, value in summary.items():
        commit.set(key, value)
    commit.commit()
    return True


def is_upserted(session: SparkSession, table: Any) -> bool:
    """Return whether rows of Iceberg's *table* are to be replaced by equality deletes."""
    asked = text_map(session, table.properties()).get(UPSERT) == EQUALITY_DELETE
    return asked and table.operations().current().formatVersion() >= 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Spark's internal rows, in arrays of the JVM, of the keys that go and the rows that come in one partition."""

    values: Values
    gone: Any
    rows: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A storage table as its files are written: its columns by name with id and type, and those of its partitions.

    `partition` is None if the partitions are not by the values of columns.
    """

    session: SparkSession
    table: Any
    properties: Mapping[str, str]
    ids: Mapping[str, int]
    types: Mapping[str, str]
    partition: tuple[str, ...] | None

    @classmethod
    def of(cls, session: SparkSession, table: Any, properties: Mapping[str, str]) -> Self:
        fields = json.loads(static_member(session, f"{_ICEBERG}.SchemaParser.toJson")(table.schema()))["fields"]
        names = {field["id"]: field["name"] for field in fields}
        spec = json.loads(static_member(session, f"{_ICEBERG}.PartitionSpecParser.toJson")(table.spec()))["fields"]
        by_value = all(each["transform"] == "identity" and each["source-id"] in names for each in spec)
        return cls(
            session=session,
            table=table,
            properties=properties,
            ids={name: number for number, name in names.items()},
            types={field["name"]: _base(field["type"]) for field in fields},
            partition=tuple(names[each["source-id"]] for each in spec) if by_value else None,
        )

    def keys_of(self, replacement: Replacement) -> tuple[str, ...] | None:
        """Return the keys in the order of the table's columns; None if rows cannot be deleted by them."""
        gone, rows = self.session.table(replacement.gone).schema, replacement.rows.schema
        keys = tuple(name for name in self.types if name in replacement.keys)
        stored = static_member(self.session, f"{_ICEBERG}.spark.SparkSchemaUtil.convert")(self.table.schema())
        if (
            len(keys) != len(replacement.keys)
            or any(self.types[key] not in _COMPARED or gone[key].dataType != rows[key].dataType for key in keys)
            or stored.catalogString() != rows.simpleString()
            or self.partition is None
            or any(name not in keys or self.types[name] not in _NAMED for name in self.partition)
        ):
            return None
        return keys

    def parts(self, gone: DataFrame, rows: DataFrame) -> list[_Part] | None:
        """Return what goes and what comes by partition, with all of it computed; None if that is too much."""
        if not self.partition:
            part = _Part(values=(), gone=_collected(gone), rows=_collected(rows))
            return None if len(part.gone) > MOST_KEYS or len(part.rows) > MOST_ROWS else [part]
        gone, rows = computed(gone), computed(rows)
        if gone.count() > MOST_KEYS or rows.count() > MOST_ROWS:
            return None
        texts = [col(quote(name)).cast("string") for name in self.partition]
        found = {tuple(row) for row in gone.select(*texts).union(rows.select(*texts)).distinct().collect()}
        if len(found) > MOST_PARTITIONS or any(_NULL in values for values in found):
            return None
        return [
            _Part(values=values, gone=_collected(_of(gone, texts, values)), rows=_collected(_of(rows, texts, values)))
            for values in sorted(found, key=repr)
        ]

    def data_file(self, part: _Part) -> Any:
        writer = self._writer("data", self.table.schema(), part.values)
        return _written(self.session, writer.build(), part.rows).dataFiles().get(0)

    def delete_file(self, part: _Part, keys: Sequence[str]) -> Any:
        schema = self.table.schema().select(java_strings(self.session, keys))
        writer = self._writer("equalityDelete", schema, part.values)
        ids = java_integers(self.session, [self.ids[key] for key in keys])
        return _written(self.session, writer.equalityFieldIds(ids).build(), part.gone).deleteFiles().get(0)

    def _writer(self, content: str, schema: Any, values: Values) -> Any:
        """Return a builder of Iceberg's writer of Spark's rows in columns *schema* to a new file of a partition."""
        session, spec = self.session, self.table.spec()
        formats = _FORMATS[content == "data" :]
        name = next((self.properties[key] for key in formats if key in self.properties), "parquet")
        format_ = static_member(session, f"{_ICEBERG}.FileFormat.fromString")(name)
        partition = self._partition(values) if values else None
        files = static_member(session, f"{_ICEBERG}.io.OutputFileFactory.builderFor")(self.table, 0, 0)
        file = files.operationId(str(uuid4())).format(format_).build().newOutputFile(spec, partition)
        builder = static_member(session, f"{_ICEBERG}.formats.FormatModelRegistry.{content}WriteBuilder")(
            format_, java_class(session, "org.apache.spark.sql.catalyst.InternalRow"), file
        )
        builder = (
            builder.setAll(self.table.properties())
            .metricsConfig(static_member(session, f"{_ICEBERG}.MetricsConfig.forTable")(self.table))
            .schema(schema)
            .engineSchema(static_member(session, f"{_ICEBERG}.spark.SparkSchemaUtil.convert")(schema))
            .spec(spec)
        )
        return builder if partition is None else builder.partition(partition)

    def _partition(self, values: Values) -> Any:
        """Return Iceberg's form of the values of a partition: that of a file in it."""
        file = static_member(self.session, f"{_ICEBERG}.DataFiles.builder")(self.table.spec())
        texts = java_list(self.session, java_strings(self.session, values))
        file = file.withPath("/").withFormat("parquet").withFileSizeInBytes(0).withRecordCount(0)
        return file.withPartitionValues(texts).build().partition()


def _base(type_: str | Mapping[str, Any]) -> str:
    """Return the name of a type without its parameters; `type_` is Iceberg's JSON."""
    return type_.partition("(")[0] if isinstance(type_, str) else "nested"


def _of(rows: DataFrame, texts: Sequence[Column], values: Values) -> DataFrame:
    """Return the rows that have *values* as *texts*."""
    matches = (text.eqNullSafe(lit(value)) for text, value in zip(texts, values, strict=True))
    return rows.where(reduce(and_, matches))


def _collected(rows: DataFrame) -> Any:
    """Return Spark's internal rows of a frame as an array of the JVM."""
    return rows._jdf.queryExecution().executedPlan().executeCollect()


def _written(session: SparkSession, writer: Any, rows: Any) -> Any:
    """Write *rows* by a writer of Iceberg's, and return what it says of its file."""
    try:
        call_as(session, f"{_ICEBERG}.io.FileWriter.write", "java.lang.Iterable", writer, java_list(session, rows))
    finally:
        writer.close()
    return writer.result()
