from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.tables.engine import RefreshEngine
from tests.support.engine_contract import EngineContract
from tests.support.engine_steps import COLUMNS, Row
from tests.support.fake_engine import FakeEngine


class SparkSources:
    """Sources and foreign writers through plain SQL."""

    def __init__(self, driver: SparkDriver) -> None:
        self.session = driver.session

    def create(self, name: str, rows: Sequence[Row]) -> None:
        self.session.sql(f"CREATE TABLE {name} (ds STRING, k INT, v INT) USING iceberg")
        self.append(name, rows)

    def create_without_commit(self, name: str) -> None:
        self.session.sql(f"CREATE TABLE {name} (ds STRING, k INT, v INT) USING iceberg")

    def add_column(self, name: str) -> None:
        self.session.sql(f"ALTER TABLE {name} ADD COLUMN more DATE FIRST")

    def append(self, name: str, rows: Sequence[Row]) -> None:
        values = ", ".join(f"('{row['ds']}', {row['k']}, {row['v']})" for row in rows)
        self.session.sql(f"INSERT INTO {name} (ds, k, v) VALUES {values}")

    def compact(self, name: str) -> None:
        table = name.removeprefix("lake.")
        options = "map('rewrite-all', 'true')"
        self.session.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => {options})")

    def rollback(self, name: str) -> None:
        history = self.session.sql(
            f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at DESC"
        ).collect()
        table = name.removeprefix("lake.")
        self.session.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {history[1].snapshot_id})")

    def write_foreign(self, identifier: TableIdentifier, rows: Sequence[Row]) -> None:
        self.append(identifier.sql, rows)

    def rows(self, identifier: TableIdentifier) -> list[dict[str, Any]]:
        return [row.asDict() for row in self.session.table(identifier.sql).collect()]


class FakeSources:
    """Sources and foreign writers of the fake engine."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine

    def create(self, name: str, rows: Sequence[Row]) -> None:
        self.engine.create_source(name, rows)

    def create_without_commit(self, name: str) -> None:
        self.engine.create_source(name, [], columns=COLUMNS)

    def add_column(self, name: str) -> None:
        self.engine.alter_source(name, (Column(name="more", type="date"), *self.engine.sources[name].columns))

    def append(self, name: str, rows: Sequence[Row]) -> None:
        source = self.engine.sources[name]
        self.engine.commit(name, [*source.versions[source.current], *rows])

    def compact(self, name: str) -> None:
        source = self.engine.sources[name]
        self.engine.commit(name, source.versions[source.current], compaction=True)

    def rollback(self, name: str) -> None:
        source = self.engine.sources[name]
        parent = source.parents[source.current]
        assert parent is not None
        self.engine.roll_back(name, parent)

    def write_foreign(self, identifier: TableIdentifier, rows: Sequence[Row]) -> None:
        self.engine.write_foreign(identifier, rows)

    def rows(self, identifier: TableIdentifier) -> list[Row]:
        return self.engine.rows(identifier)


class TestFakeEngine(EngineContract):
    @pytest.fixture
    def fake(self) -> FakeEngine:
        return FakeEngine()

    @pytest.fixture
    def engine(self, fake: FakeEngine) -> RefreshEngine:
        return fake.roles

    @pytest.fixture
    def source(self, fake: FakeEngine) -> FakeSources:
        return FakeSources(fake)


@pytest.mark.spark
class TestSparkEngine(EngineContract):
    @pytest.fixture
    def engine(self, spark_driver: SparkDriver) -> RefreshEngine:
        return spark_engine(SparkContexts(spark_driver))

    @pytest.fixture
    def source(self, spark_driver: SparkDriver) -> SparkSources:
        return SparkSources(spark_driver)
