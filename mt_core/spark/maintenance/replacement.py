"""Replacements: the rows of a table that go, and those that come, written as the whole table or by one MERGE of a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.functions import max as greatest
from pyspark.sql.functions import min as least

from mt_core.identifiers import quote, string_literal
from mt_core.maintenance.delta import same
from mt_core.spark.driver.jvm_objects import java_class, java_map, static_member
from mt_core.spark.maintenance.row_images import computed, temporary_view

EVERYWHERE = "true"
"""The bounds that every row meets."""
# Types, by the start of their texts, that a text holds exactly, whatever the time zone is.
_BOUNDED = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The rows that have values of the relation `gone` in the columns `keys` go, `rows`, in the table's columns, come.

    Rows `q` that go meet `bounds`, by which Iceberg leaves files out.
    """

    keys: tuple[str, ...]
    gone: str
    bounds: str
    rows: DataFrame

    def whole(self, table: str) -> DataFrame:
        """Return all rows of *table* after the replacement."""
        given = ", ".join(map(quote, self.rows.columns))
        kept = f"SELECT {given} FROM {table} AS q LEFT ANTI JOIN {self.gone} AS k ON {same('q', self.keys)}"
        return self.rows.sparkSession.sql(kept).unionAll(self.rows)

    def merge_into(self, branch: str, summary: Mapping[str, str]) -> None:
        """Carry the replacement out by one statement, whose snapshot has *summary*.

        Each value that goes is a row of the statement that deletes, each row that comes one that matches nothing.
        """
        session, mark = self.rows.sparkSession, f"_comes_{uuid4().hex}"
        gone = session.table(self.gone).select(
            *(col(quote(key)).cast(self.rows.schema[key].dataType).alias(key) for key in self.keys)
        )
        source = (
            gone.distinct()
            .withColumn(mark, lit(False))
            .unionByName(self.rows.withColumn(mark, lit(True)), allowMissingColumns=True)
        )
        given = ", ".join(map(quote, self.rows.columns))
        values = ", ".join(f"k.{quote(column)}" for column in self.rows.columns)
        with temporary_view(computed(source)) as view:
            matches = f"NOT k.{mark} AND {same('q', self.keys)} AND {self.bounds}"
            _run(
                session,
                f"MERGE INTO {branch} AS q USING {view} AS k ON {matches} "
                f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND k.{mark} THEN INSERT ({given}) VALUES ({values})",
                summary,
            )


def bounds_of(session: SparkSession, view: str, columns: Sequence[str]) -> str:
    """Return a condition that rows `q` with values of a view in *columns* meet, by which Iceberg leaves files out."""
    frame = session.table(view)
    bounded = [name for name, type_ in frame.dtypes if name in columns and type_.startswith(_BOUNDED)]
    if not bounded:
        return EVERYWHERE
    ends = frame.agg(*(end(quote(name)).cast("string") for name in bounded for end in (least, greatest))).first()
    found = [] if ends is None else list(zip(bounded, ends[::2], ends[1::2], strict=True))
    types = dict(frame.dtypes)
    return (
        " AND ".join(
            f"(q.{quote(name)} IS NULL OR q.{quote(name)} BETWEEN CAST({string_literal(low)} AS {types[name]}) "
            f"AND CAST({string_literal(high)} AS {types[name]}))"
            for name, low, high in found
            if low is not None
        )
        or EVERYWHERE
    )


def _run(session: SparkSession, text: str, summary: Mapping[str, str]) -> None:
    """Run a statement whose snapshot has *summary*: Iceberg takes it from the thread that commits, as long as a Java call lasts."""
    signature = static_member(session, "java.lang.invoke.MethodType.methodType")(
        java_class(session, "org.apache.spark.sql.classic.Dataset"), java_class(session, "java.lang.String")
    )
    lookup = static_member(session, "java.lang.invoke.MethodHandles.publicLookup")()
    method = lookup.findVirtual(session._jsparkSession.getClass(), "sql", signature).bindTo(session._jsparkSession)
    call = static_member(session, "java.lang.invoke.MethodHandleProxies.asInterfaceInstance")(
        java_class(session, "java.util.concurrent.Callable"), method.bindTo(text)
    )
    static_member(session, "org.apache.iceberg.spark.CommitMetadata.withCommitProperties")(
        java_map(session, summary), call, java_class(session, "java.lang.Exception")
    )
