"""A materialized table whose runs only write states and publish, in a JDBC and in a REST catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyarrow import Table, array
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import DecimalType, LongType, StringType, StructType

from mt_core.model.fence import RefreshWriter
from mt_core.model.partition import WHOLE
from mt_core.model.storage import Snapshot, StorageMetadata, run_summary
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.jvm_rows import arrow_schema
from mt_core.spark.iceberg.replace_rows import AddedRows, replace_rows
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.states.kept_states import KeptStates, StateChange, WrittenStates
from mt_core.tables.engine import StorageSpec
from tests.integration.rest_catalog import WAREHOUSE, rest_catalog
from tests.integration.spark_catalog import spark_catalog

STAGE, OTHER = "00aa11bb22cc33dd", "ffee00112233aabb"
SCHEMA = (
    StructType()
    .add("k0", StringType())
    .add("rows", LongType())
    .add("s0", DecimalType(38, 2))
    .add("n0", LongType())
)
State = Sequence[tuple[object, ...]]


@dataclass
class StateWorld:
    """The table `table` of a catalog."""

    spark: SparkContexts
    table: TableIdentifier
    table_id: str = field(default_factory=lambda: str(uuid4()))
    runs: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.engine, self.session = spark_engine(self.spark), self.spark.catalogs.session
        spec = StorageSpec(
            identifier=self.table, table_id=self.table_id, columns=(Column(name="id", type="int"),)
        )
        self.engine.storage.create_storage(spec)

    # ------------------------------------------------------------------------------------------------- a run

    def rows(self, *rows: tuple[object, ...], schema: StructType = SCHEMA) -> ComputedRows:
        """Return local rows with the columns of a state."""
        with self.spark.working() as session:
            arrow = arrow_schema(session, schema)
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        return ComputedRows(
            session=self.session,
            schema=schema,
            table=Table.from_arrays(
                [array(list(values), type=kind.type) for values, kind in zip(columns, arrow, strict=True)],
                schema=arrow,
            ),
        )

    def load(self) -> StorageMetadata:
        return self.engine.metadata.load(self.table)

    def describing(self, metadata: StorageMetadata) -> Snapshot:
        """Return the snapshot of main that describes its rows."""
        return next(each for each in self.engine.metadata.ancestors(metadata) if each.describes_rows)

    def kept(self, metadata: StorageMetadata | None = None) -> KeptStates:
        """Return the states of main, which a run finds."""
        metadata = metadata or self.load()
        return KeptStates(self.session, self.spark, self.table, metadata, self.describing(metadata))

    def write(self, run: str, changes: Mapping[str, StateChange | None]) -> WrittenStates:
        """Write the states of a run."""
        kept = self.kept()
        with self.spark.working():
            return kept.write(run, changes)

    def publish(self, run: str, written: WrittenStates, at: StorageMetadata | None = None) -> str:
        """Publish a run with one more row on the main of *at*, and return its snapshot."""
        metadata = at or self.load()
        summary = run_summary(
            run_id=run, scope=WHOLE, sources=[], fingerprint="f", schedule_time=None, strategy="stages"
        )
        with self.spark.working() as session:
            commit = HeldCommit.on(
                session, self.table, metadata, metadata.main, {**summary, **written.summary}
            )
            replace_rows(commit, AddedRows(rows=session.range(1).selectExpr("CAST(id AS INT) AS id")), None)
        snapshot = str(commit.pending.snapshotId())
        change = RefreshWriter(number=1).publish(
            metadata, run, snapshot, pending=commit.pending, states=written.text or None
        )
        self.engine.metadata.swap(self.table, metadata, change)
        return snapshot

    def refresh(self, changes: Mapping[str, StateChange | None]) -> str:
        """Write the states of a run and publish it; return its name."""
        run = f"run-{next(self.runs)}"
        self.publish(run, self.write(run, changes))
        return run

    # ------------------------------------------------------------------------------------------------ a state

    def state(self, stage: str = STAGE, schema: StructType = SCHEMA) -> list[tuple[object, ...]] | None:
        """Return the partial sums that a run reads now, in order; None if there is no state."""
        kept = self.kept()
        with self.spark.working():
            rows = kept.read(stage, schema)
            return None if rows is None else in_order(rows.frame)

    def state_tables(self) -> list[str]:
        """Return the names of all state tables in the namespace."""
        namespace = TableIdentifier(self.table.catalog, self.table.namespace[:-1], self.table.namespace[-1])
        shown = self.session.sql(f"SHOW TABLES IN {namespace.sql}").collect()
        return sorted(row.tableName for row in shown if row.tableName.startswith("_freshtable_state_"))

    def state_table(self, stage: str = STAGE) -> TableIdentifier:
        name = f"_freshtable_state_{self.table_id.replace('-', '')}_{stage}"
        return TableIdentifier(self.table.catalog, self.table.namespace, name)

    def named(self) -> str:
        """Return the snapshot of a state that main names."""
        return self.describing(self.load()).states[STAGE]

    def folder_of(self, stage: str) -> Path:
        """Return the folder of a state table."""
        location = self.spark.catalogs.load_table(self.state_table(stage)).location()
        return Path(str(location).removeprefix("file:").replace("//", "/"))

    def roll_back(self, snapshot: str) -> None:
        """Set main back, as another writer does."""
        name = ".".join(self.table.parts[1:])
        self.session.sql(f"CALL {self.table.catalog}.system.set_current_snapshot('{name}', {snapshot})")

    def of_state(self, text: str, stage: str = STAGE) -> list[Row]:
        """Return the rows of one of the tables that Iceberg has about a state table."""
        return self.session.sql(f"SELECT * FROM {self.state_table(stage).sql}.{text}").collect()

    def of_table(self, statement: str, stage: str = STAGE) -> list[Row]:
        """Return the rows of a statement that names a state table at its end."""
        return self.session.sql(f"{statement} {self.state_table(stage).sql}").collect()

    def of_frame(self, frame: DataFrame) -> ComputedRows:
        """Return the rows of a query as local rows."""
        with self.spark.working():
            return collect_or_checkpoint(frame)

    def later(self) -> datetime:
        """Return a time at which all snapshots are old."""
        return datetime.now(UTC) + timedelta(seconds=1)


def whole(rows: DataFrame | ComputedRows) -> StateChange:
    """Return the new state of a recomputation."""
    return StateChange(whole=rows)


def in_order(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture(params=["jdbc", pytest.param("rest", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, spark_driver: SparkDriver, tmp_path: Path) -> Iterator[StateWorld]:
    spark = SparkContexts(spark_driver)
    namespace, name = f"states_{uuid4().hex[:8]}", f"mt_{uuid4().hex[:8]}"
    if request.param == "jdbc":
        spark_driver.session.sql(f"CREATE NAMESPACE lake.{namespace}")
        yield StateWorld(spark, TableIdentifier("lake", (namespace,), name))
        return
    options = {"type": "rest", "warehouse": WAREHOUSE}
    with (
        rest_catalog(tmp_path / "server") as uri,
        spark_catalog(spark_driver.session, {**options, "uri": uri}) as catalog,
    ):
        spark_driver.session.sql(f"CREATE NAMESPACE {catalog}.{namespace}")
        yield StateWorld(spark, TableIdentifier(catalog, (namespace,), name))
