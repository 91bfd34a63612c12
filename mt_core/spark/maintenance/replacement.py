"""Replacements: the rows of a table that go, and those that come, written as the whole table or as what changes of a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.functions import max as greatest
from pyspark.sql.functions import min as least

from mt_core.identifiers import quote, string_literal
from mt_core.maintenance.delta import same
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.jvm_objects import java_class, java_map, state_of, static_member
from mt_core.spark.maintenance.row_images import Computed, computed, temporary_view

EVERYWHERE = "true"
"""The bounds that every row meets."""
_PLACE = ("_file", "_pos", "_spec_id", "_partition")
# Types, by the start of their texts, that a text holds exactly, whatever the time zone is.
_BOUNDED = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """A replacement told by copies: of the rows with a value only so many go as `column` of `gone` says, and `rows` come."""

    column: str
    rows: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The rows that have values of the relation `gone` in the columns `keys` go, `rows`, in the table's columns, come.

    Rows `q` that go meet `bounds`, by which Iceberg leaves files out. `copies` has the same with fewer rows, if `gone` counts them.
    """

    keys: tuple[str, ...]
    gone: str
    bounds: str
    rows: DataFrame
    copies: Copies | None = None

    def whole(self, table: str) -> DataFrame:
        """Return all rows of *table* after the replacement."""
        given = ", ".join(map(quote, self.rows.columns))
        kept = f"SELECT {given} FROM {table} AS q LEFT ANTI JOIN {self.gone} AS k ON {same('q', self.keys)}"
        return self.rows.sparkSession.sql(kept).unionAll(self.rows)

    def write_into(self, branch: str, summary: Mapping[str, str]) -> None:
        """Carry the replacement out on *branch* by one commit, whose snapshot has *summary*."""
        session = self.rows.sparkSession
        command = _delta_command(session, branch)
        if command is None:
            self._merge_into(branch, summary)
            return
        columns = columns_of(command.query().schema())
        operation = columns[0].name
        with temporary_view(self.rows if self.copies is None else self.copies.rows) as rows:
            row = {column: quote(column) for column in self.rows.columns}
            frame = session.sql(
                f"SELECT {_items(columns, {operation: _code(session, 'DELETE'), **dict(zip(_PLACE, _PLACE, strict=True))})} "
                f"FROM ({self._places(branch)}) "
                f"UNION ALL SELECT {_items(columns, {operation: _code(session, 'INSERT'), **row})} FROM {rows}"
            )
            _run(session, command.withNewQuery(frame._jdf.queryExecution().analyzed()), summary)

    def _places(self, branch: str) -> str:
        """Return the text of a query that gives the places of the rows that go."""
        place, matches = ", ".join(f"q.{name}" for name in _PLACE), f"{same('q', self.keys)} WHERE {self.bounds}"
        if self.copies is None:
            return f"SELECT {place} FROM {branch} AS q LEFT SEMI JOIN {self.gone} AS k ON {matches}"
        keys, copies = ", ".join(f"q.{quote(key)}" for key in self.keys), self.copies.column
        return (
            f"SELECT * FROM (SELECT {place}, k.{copies} AS copies, "
            f"row_number() OVER (PARTITION BY {keys} ORDER BY q._file, q._pos) AS number "
            f"FROM {branch} AS q JOIN {self.gone} AS k ON {matches}) WHERE number <= copies"
        )

    def _merge_into(self, branch: str, summary: Mapping[str, str]) -> None:
        """Carry the replacement out by one MERGE.

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
            text = (
                f"MERGE INTO {branch} AS q USING {view} AS k ON {matches} "
                f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND k.{mark} THEN INSERT ({given}) VALUES ({values})"
            )
            _run(session, state_of(session).sqlParser().parsePlan(text), summary)


def bounds_of(gone: Computed, columns: Sequence[str]) -> str:
    """Return a condition that rows `q` with values of *gone* in *columns* meet, by which Iceberg leaves files out."""
    types = {name: type_ for name, type_ in gone.frame.dtypes if name in columns and type_.startswith(_BOUNDED)}
    return (
        " AND ".join(
            f"(q.{quote(name)} IS NULL OR q.{quote(name)} BETWEEN CAST({string_literal(low)} AS {types[name]}) "
            f"AND CAST({string_literal(high)} AS {types[name]}))"
            for name, (low, high) in _ends_of(gone, list(types)).items()
            if low is not None and high is not None
        )
        or EVERYWHERE
    )


def _ends_of(gone: Computed, names: list[str]) -> Mapping[str, tuple[str | None, str | None]]:
    """Return the lowest and the highest value of columns as texts, None without any."""
    if gone.rows is not None:
        ends = {name: compute.min_max(gone.rows[name]).as_py() for name in names}
        return {name: (_text(each["min"]), _text(each["max"])) for name, each in ends.items()}
    if not names:
        return {}
    row = gone.frame.agg(*(end(quote(name)).cast("string") for name in names for end in (least, greatest))).collect()[0]
    return {name: (row[2 * number], row[2 * number + 1]) for number, name in enumerate(names)}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _delta_command(session: SparkSession, branch: str) -> Any | None:
    """Return Spark's command that deletes rows of *branch* by file and position and inserts others, for any rows.

    None if the table writes files with changed rows again, or has deletion vectors, to which the scan of a statement adds.
    """
    text = f"MERGE INTO {branch} q USING {branch} k ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    state = state_of(session)
    command = state.analyzer().execute(state.sqlParser().parsePlan(text))
    if command.nodeName() != "WriteDelta" or "_row_id" in command.query().schema().fieldNames():
        return None
    return command


def _code(session: SparkSession, operation: str) -> str:
    """Return the number of an operation on a row of such a command."""
    return str(static_member(session, f"org.apache.spark.sql.catalyst.util.RowDeltaUtils.{operation}_OPERATION")())


def _items(columns: Sequence[Column], values: Mapping[str, str]) -> str:
    """Return the items of a SELECT that gives *columns*: the values by their names, NULL for the others."""
    return ", ".join(
        f"{values.get(column.name, f'CAST(NULL AS {column.type})')} AS {quote(column.name)}" for column in columns
    )


def _run(session: SparkSession, command: Any, summary: Mapping[str, str]) -> None:
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
