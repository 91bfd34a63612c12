"""The contract of statement engines, on Spark and on the fake of the session tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mt_core.base.rowset import Column
from mt_core.model.table import Column as StoredColumn
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from tests.support.fake_statements import NO_ROWS, ONE_ROW, FakeStatementEngine
from tests.support.statement_engine_contract import ONE, StatementEngineContract, job, session

TABLE = ("lake", "default", "contract_of_statements")
ENDLESS = "SELECT java_method('java.lang.Thread', 'sleep', id + 600000) FROM range(0, 1, 1, 1)"


class TestFakeStatementEngine(StatementEngineContract):
    @pytest.fixture
    def engine(self) -> FakeStatementEngine:
        engine = FakeStatementEngine({ONE: ONE_ROW})
        engine.columns_of_queries[ONE] = [StoredColumn(name="a", type="int")]
        return engine

    @pytest.fixture
    def table(self, engine: FakeStatementEngine) -> Sequence[str]:
        engine.tables[".".join(TABLE)] = [Column(name="id"), Column(name="city")]
        return TABLE

    @pytest.fixture
    def endless(self, engine: FakeStatementEngine) -> str:
        engine.hold(ENDLESS)
        return ENDLESS

    @pytest.fixture
    def created(self, engine: FakeStatementEngine) -> str:
        for words in ("CREATE TABLE", "REPLACE TABLE"):
            engine.answers[f"{words} created_of_query AS {ONE}"] = NO_ROWS
        return "created_of_query"

    @pytest.fixture
    def missing_jar(self, engine: FakeStatementEngine) -> str:
        engine.missing_jars.add("missing.jar")
        return "missing.jar"


@pytest.mark.spark
class TestSparkStatements(StatementEngineContract):
    @pytest.fixture
    def engine(self, spark_driver: SparkDriver) -> SparkStatements:
        return SparkStatements(SparkContexts(spark_driver))

    @pytest.fixture
    def table(self, engine: SparkStatements) -> Sequence[str]:
        sql = f"CREATE TABLE IF NOT EXISTS {'.'.join(TABLE)} (id BIGINT, city STRING) USING iceberg"
        engine.execute(session(), sql, job_id=job())
        return TABLE

    @pytest.fixture
    def endless(self) -> str:
        return ENDLESS

    @pytest.fixture
    def created(self, engine: SparkStatements) -> Iterator[str]:
        name = "contract_of_created"
        yield name
        engine.execute(session(), f"DROP TABLE IF EXISTS {name}", job_id=job())

    @pytest.fixture
    def missing_jar(self, tmp_path: Path) -> str:
        return str(tmp_path / "missing.jar")
