"""Replacements: the rows of a table that go, and those that come, written as the whole table or by a MERGE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import kept_apart, same
from mt_core.spark.driver.jvm_objects import java_class, java_map, state_of, static_member
from mt_core.spark.iceberg.bounds import bounds_of, condition_of
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import Computed, computed
from mt_core.spark.iceberg.temporary_views import temporary_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The rows that have one of `values`, each there once, in the columns `keys` go; `rows`, in the table's columns, come.

    `gone` is a relation with the values, which may have other columns too. `bounds` is a condition that rows `q` which go meet;
    None: it was not computed.
    """

    keys: tuple[str, ...]
    values: Computed
    gone: str
    rows: DataFrame | Computed
    bounds: str | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows that come, as a relation."""
        return self.rows.frame if isinstance(self.rows, Computed) else self.rows

    def whole(self, table: str) -> DataFrame:
        """Return all rows of *table* after the replacement."""
        kept = kept_apart(table, self.rows.columns, self.keys, self.gone)
        return self.frame.sparkSession.sql(kept).unionAll(self.frame)

    def write_into(self, commit: BranchCommit) -> None:
        """Carry the replacement out by one MERGE.

        Each value that goes is a row of the statement that deletes, each row that comes one that matches nothing. By the
        bounds of the values Iceberg leaves files out.
        """
        rows, mark = self.frame, f"_comes_{uuid4().hex}"
        session = rows.sparkSession
        gone = session.table(self.gone).select(
            *(col(quote(key)).cast(rows.schema[key].dataType).alias(key) for key in self.keys)
        )
        source = (
            gone.distinct()
            .withColumn(mark, lit(False))
            .unionByName(rows.withColumn(mark, lit(True)), allowMissingColumns=True)
        )
        given = ", ".join(map(quote, rows.columns))
        values = ", ".join(f"k.{quote(column)}" for column in rows.columns)
        bounds = condition_of(bounds_of(self.values, self.keys)) if self.bounds is None else self.bounds
        with temporary_view(computed(source)) as view:
            matches = f"NOT k.{mark} AND {same('q', self.keys)} AND {bounds}"
            text = (
                f"MERGE INTO {commit.sql} AS q USING {view} AS k ON {matches} "
                f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND k.{mark} THEN INSERT ({given}) VALUES ({values})"
            )
            run_command(session, state_of(session).sqlParser().parsePlan(text), commit.summary)


def run_command(session: SparkSession, command: Any, summary: Mapping[str, str]) -> None:
    """Run a command whose snapshot has *summary*: Iceberg takes it from the thread that commits, as long as a Java call lasts."""
    gateway: Any = session.sparkContext._gateway
    dataset, spark_session, plan = (
        java_class(session, f"org.apache.spark.sql.{name}")
        for name in ("classic.Dataset", "classic.SparkSession", "catalyst.plans.logical.LogicalPlan")
    )
    plans = gateway.new_array(static_member(session, "java.lang.Class"), 1)
    plans[0] = plan
    signature = static_member(session, "java.lang.invoke.MethodType.methodType")(dataset, spark_session, plans)
    lookup = static_member(session, "java.lang.invoke.MethodHandles.publicLookup")()
    method = lookup.findStatic(dataset, "ofRows", signature).bindTo(session._jsparkSession).bindTo(command)
    call = static_member(session, "java.lang.invoke.MethodHandleProxies.asInterfaceInstance")(
        java_class(session, "java.util.concurrent.Callable"), method
    )
    static_member(session, "org.apache.iceberg.spark.CommitMetadata.withCommitProperties")(
        java_map(session, summary), call, java_class(session, "java.lang.Exception")
    )
