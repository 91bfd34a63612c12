"""Written files: data and delete files that the driver writes, by Iceberg's own writers of Spark's rows.

For few rows a job takes several times as long: its plan, its code and its tasks are made anew for each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.errors import QueryFailed
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.jvm_objects import (
    call_as,
    java_class,
    java_integers,
    java_list,
    java_strings,
    static_member,
    text_map,
)

ICEBERG = "org.apache.iceberg"
_NULL = "java.lang.NullPointerException"
_FORMATS = ("write.delete.format.default", "write.format.default")

Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriter:
    """Writes files of a storage table: its columns by name with id and type, and those of its partitions.

    `partition` is None if the partitions are not by the values of columns. Rows are arrays of the JVM, as `collected` gives them.
    """

    session: SparkSession
    table: Any
    properties: Mapping[str, str]
    ids: Mapping[str, int]
    types: Mapping[str, str]
    required: tuple[str, ...]
    partition: tuple[str, ...] | None

    @classmethod
    def of(cls, session: SparkSession, table: Any) -> Self:
        fields = json.loads(static_member(session, f"{ICEBERG}.SchemaParser.toJson")(table.schema()))["fields"]
        names = {field["id"]: field["name"] for field in fields}
        spec = json.loads(static_member(session, f"{ICEBERG}.PartitionSpecParser.toJson")(table.spec()))["fields"]
        by_value = all(each["transform"] == "identity" and each["source-id"] in names for each in spec)
        return cls(
            session=session,
            table=table,
            properties=text_map(session, table.properties()),
            ids={name: number for number, name in names.items()},
            types={field["name"]: _base(field["type"]) for field in fields},
            required=tuple(field["name"] for field in fields if field["required"]),
            partition=tuple(names[each["source-id"]] for each in spec) if by_value else None,
        )

    def stores(self, columns: StructType) -> bool:
        """Return whether *columns* are those of the table, in its order and types."""
        stored = static_member(self.session, f"{ICEBERG}.spark.SparkSchemaUtil.convert")(self.table.schema())
        return bool(stored.catalogString() == columns.simpleString())

    def data_file(self, rows: Any, values: Values = ()) -> Any:
        """Write *rows* to a new file of the partition with *values*."""
        metrics = self._metrics("forTable")(self.table)
        return self._rows_file(rows, self.table.schema(), metrics, values)

    def equality_deletes(self, rows: Any, keys: Sequence[str], values: Values = ()) -> Any:
        """Write the values *rows* of the columns *keys*, by which rows of the partition with *values* go."""
        schema = self.table.schema().select(java_strings(self.session, keys))
        writer = self._writer("equalityDelete", schema, self._metrics("forTable")(self.table), values)
        ids = java_integers(self.session, [self.ids[key] for key in keys])
        return self._written(writer.equalityFieldIds(ids).build(), rows).deleteFiles().get(0)

    def position_deletes(self, places: DataFrame) -> Any:
        """Write *places*, each a file and a position in it, in their order; the table has no partitions."""
        schema = static_member(self.session, f"{ICEBERG}.io.DeleteSchemaUtil.pathPosSchema")()
        # The rows of such a file are those of a file of data.
        file = self._rows_file(collected(places), schema, self._metrics("forPositionDelete")(self.table), (), _FORMATS)
        metrics = static_member(self.session, f"{ICEBERG}.Metrics")(
            file.recordCount(),
            *(file.columnSizes(), file.valueCounts(), file.nullValueCounts(), file.nanValueCounts()),
            *(file.lowerBounds(), file.upperBounds()),
        )
        return (
            static_member(self.session, f"{ICEBERG}.FileMetadata.deleteFileBuilder")(self.table.spec())
            .ofPositionDeletes()
            .withPath(file.location())
            .withFormat(file.format())
            .withFileSizeInBytes(file.fileSizeInBytes())
            .withMetrics(metrics)
            .build()
        )

    def _rows_file(
        self, rows: Any, schema: Any, metrics: Any, values: Values, formats: Sequence[str] = _FORMATS[1:]
    ) -> Any:
        writer = self._writer("data", schema, metrics, values, formats)
        return self._written(writer.build(), rows).dataFiles().get(0)

    def _written(self, writer: Any, rows: Any) -> Any:
        """Write *rows* by a writer of Iceberg's, and return what it says of its file."""
        session = self.session
        try:
            call_as(session, f"{ICEBERG}.io.FileWriter.write", "java.lang.Iterable", writer, java_list(session, rows))
        except SPARK_ERRORS as cause:
            if _NULL in java_classes(cause) and self.required:
                names = ", ".join(map(quote, self.required))
                raise QueryFailed(
                    f"A row of {self.table.name()} has NULL in a column that is NOT NULL: one of {names}."
                ) from cause
            raise
        finally:
            writer.close()
        return writer.result()

    def _metrics(self, kind: str) -> Any:
        return static_member(self.session, f"{ICEBERG}.MetricsConfig.{kind}")

    def _writer(
        self, content: str, schema: Any, metrics: Any, values: Values, formats: Sequence[str] = _FORMATS
    ) -> Any:
        """Return a builder of Iceberg's writer of Spark's rows in columns *schema* to a new file of a partition."""
        session, spec = self.session, self.table.spec()
        name = next((self.properties[key] for key in formats if key in self.properties), "parquet")
        format_ = static_member(session, f"{ICEBERG}.FileFormat.fromString")(name)
        partition = self._partition(values) if values else None
        files = static_member(session, f"{ICEBERG}.io.OutputFileFactory.builderFor")(self.table, 0, 0)
        file = files.operationId(str(uuid4())).format(format_).build().newOutputFile(spec, partition)
        builder = static_member(session, f"{ICEBERG}.formats.FormatModelRegistry.{content}WriteBuilder")(
            format_, java_class(session, "org.apache.spark.sql.catalyst.InternalRow"), file
        )
        builder = (
            builder.setAll(self.table.properties())
            .metricsConfig(metrics)
            .schema(schema)
            .engineSchema(static_member(session, f"{ICEBERG}.spark.SparkSchemaUtil.convert")(schema))
            .spec(spec)
        )
        return builder if partition is None else builder.partition(partition)

    def _partition(self, values: Values) -> Any:
        """Return Iceberg's form of the values of a partition: that of a file in it."""
        file = static_member(self.session, f"{ICEBERG}.DataFiles.builder")(self.table.spec())
        texts = java_list(self.session, java_strings(self.session, values))
        file = file.withPath("/").withFormat("parquet").withFileSizeInBytes(0).withRecordCount(0)
        return file.withPartitionValues(texts).build().partition()


def _base(type_: str | Mapping[str, Any]) -> str:
    """Return the name of a type without its parameters; `type_` is Iceberg's JSON."""
    return type_.partition("(")[0] if isinstance(type_, str) else "nested"


def collected(rows: DataFrame) -> Any:
    """Return Spark's internal rows of a frame as an array of the JVM; those at hand come without a job."""
    return rows._jdf.queryExecution().executedPlan().executeCollect()
