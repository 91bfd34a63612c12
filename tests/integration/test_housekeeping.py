from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.errors import DefinitionInvalid
from mt_core.model.table import Column, TableIdentifier
from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.tables.engine import RefreshEngine, StorageSpec
from tests.integration.rest_catalog import WAREHOUSE, rest_catalog
from tests.integration.spark_catalog import spark_catalog

pytestmark = pytest.mark.spark


@pytest.fixture
def engine(spark_driver: SparkDriver) -> RefreshEngine:
    return spark_engine(SparkContexts(spark_driver))


@pytest.fixture
def table(engine: RefreshEngine, spark_driver: SparkDriver) -> TableIdentifier:
    return overwritten(engine, spark_driver, TableIdentifier("lake", ("default",), f"kept_{uuid4().hex[:8]}"))


def overwritten(
    engine: RefreshEngine, spark_driver: SparkDriver, identifier: TableIdentifier
) -> TableIdentifier:
    """Create a table whose rows were replaced twice."""
    columns = (Column(name="id", type="int"),)
    engine.storage.create_storage(StorageSpec(identifier=identifier, table_id=str(uuid4()), columns=columns))
    for number in (1, 2, 3):
        spark_driver.session.sql(f"INSERT OVERWRITE {identifier.sql} VALUES ({number})")
    return identifier


def test_old_snapshots_expire_with_their_files_and_the_rows_stay(
    engine: RefreshEngine, spark_driver: SparkDriver, table: TableIdentifier
) -> None:
    now = datetime.now(UTC) + timedelta(seconds=1)
    files = list(Path(engine.metadata.load(table).location).rglob("*.parquet"))

    assert not engine.housekeeping.has_expired(table, now - timedelta(days=1), ())
    assert engine.housekeeping.has_expired(table, now, ())
    engine.housekeeping.expire(table, now, ())

    assert not engine.housekeeping.has_expired(table, now, ())
    assert len(list(engine.metadata.ancestors(engine.metadata.load(table)))) == 1
    assert [row.id for row in spark_driver.session.table(table.sql).collect()] == [3]
    assert len(list(Path(engine.metadata.load(table).location).rglob("*.parquet"))) < len(files)


def test_old_snapshots_that_others_read_stay_while_those_between_expire(
    engine: RefreshEngine, spark_driver: SparkDriver, table: TableIdentifier
) -> None:
    now = datetime.now(UTC) + timedelta(seconds=1)
    _, first, *between = reversed(
        [each.snapshot_id for each in engine.metadata.ancestors(engine.metadata.load(table))]
    )

    engine.housekeeping.expire(table, now, {first, "1"})

    assert not engine.housekeeping.has_expired(table, now, {first})
    assert engine.housekeeping.has_expired(table, now, ())
    session = spark_driver.session
    left = {str(row.snapshot_id) for row in session.table(f"{table.sql}.snapshots").collect()}
    assert left == {first, between[-1]}
    assert [row.id for row in session.sql(f"SELECT id FROM {table.sql} VERSION AS OF {first}").collect()] == [
        1
    ]
    assert [row.id for row in session.table(table.sql).collect()] == [3]


def test_a_main_that_is_rolled_back_while_snapshots_expire_keeps_its_rows(
    engine: RefreshEngine, spark_driver: SparkDriver, tmp_path: Path
) -> None:
    """A REST catalog compares only the branches that a commit sets, and this one forgets expired parents."""
    session, rollbacks = spark_driver.session, list[str]()

    def roll_back(actions: list[str]) -> None:
        if "remove-snapshots" in actions and rollbacks:
            session.sql(rollbacks.pop()).collect()

    with (
        rest_catalog(tmp_path / "server", before_commit=roll_back) as uri,
        spark_catalog(session, {"type": "rest", "uri": uri, "warehouse": WAREHOUSE}) as catalog,
    ):
        session.sql(f"CREATE NAMESPACE {catalog}.shop")
        table = overwritten(engine, spark_driver, TableIdentifier(catalog, ("shop",), "kept"))
        now = datetime.now(UTC) + timedelta(seconds=1)
        _, first, *between = reversed(
            [each.snapshot_id for each in engine.metadata.ancestors(engine.metadata.load(table))]
        )
        rollbacks.append(f"CALL {catalog}.system.rollback_to_snapshot('shop.kept', {first})")

        engine.housekeeping.expire(table, now, ())

        assert rollbacks == []
        assert engine.metadata.load(table).main == first
        assert [row.id for row in session.table(table.sql).collect()] == [1]
        left = {str(row.snapshot_id) for row in session.table(f"{table.sql}.snapshots").collect()}
        assert left.isdisjoint(between)


def test_files_that_no_snapshot_refers_to_are_removed_once_they_are_old(
    engine: RefreshEngine, spark_driver: SparkDriver, table: TableIdentifier
) -> None:
    orphan = Path(engine.metadata.load(table).location) / "data" / "orphan.parquet"
    orphan.write_bytes(b"left by a writer that died")
    now = datetime.now(UTC) + timedelta(seconds=1)

    engine.housekeeping.remove_orphans(table, now - timedelta(days=1))
    assert orphan.exists()

    engine.housekeeping.remove_orphans(table, now)

    assert not orphan.exists()
    assert [row.id for row in spark_driver.session.table(table.sql).collect()] == [3]


def test_catalogs_that_iceberg_makes_for_itself_are_not_named_to_users(
    engine: RefreshEngine, spark_driver: SparkDriver, table: TableIdentifier
) -> None:
    options = "map('rewrite-all', 'true')"
    statements = SparkStatements(SparkContexts(spark_driver))

    def named() -> tuple[str, list[str]]:
        with pytest.raises(DefinitionInvalid, match="known catalogs: ") as refused:
            engine.catalogs.check_catalog(TableIdentifier("nowhere", ("default",), "t"))
        return str(refused.value), sorted(statements.catalogs(SessionContext(session_id="s", properties={})))

    # Other tests may have made catalogs in this session.
    before = named()
    spark_driver.session.sql(
        f"CALL lake.system.rewrite_data_files(table => 'default.{table.name}', options => {options})"
    )

    assert named() == before
    assert "default_" not in before[0]
    assert not [name for name in before[1] if name.startswith("default_")]
