from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from mt_core.errors import CatalogUnsupported, DefinitionInvalid, TableExists
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.tables.engine import RefreshEngine, StorageSpec

pytestmark = pytest.mark.spark

_numbers = count(1)


@pytest.fixture
def engine(spark_driver: SparkDriver) -> RefreshEngine:
    return spark_engine(SparkContexts(spark_driver))


@pytest.fixture
def spec(engine: RefreshEngine) -> Iterator[StorageSpec]:
    spec = StorageSpec(
        identifier=TableIdentifier("lake", ("default",), f"storage {next(_numbers)}"),
        table_id=str(uuid4()),
        columns=(
            Column(name="ds", type="string", comment="the day"),
            Column(name="k", type="int", nullable=False),
        ),
        partition_keys=("DS",),
        comment="it's mine",
        properties={"team": "me"},
    )
    yield spec
    engine.storage.drop_storage(spec.identifier, spec.table_id, "")


def test_a_table_has_columns_partitions_comment_and_properties(
    engine: RefreshEngine, spark_driver: SparkDriver, spec: StorageSpec
) -> None:
    engine.storage.create_storage(spec)

    table = spark_driver.session.table(spec.identifier.sql)
    shown = {
        row.key: row.value
        for row in spark_driver.session.sql(f"SHOW TBLPROPERTIES {spec.identifier.sql}").collect()
    }
    assert [(field.name, field.nullable, field.metadata.get("comment")) for field in table.schema] == [
        ("ds", True, "the day"),
        ("k", False, None),
    ]
    assert shown["freshtable.table-id"] == spec.table_id
    assert (shown["freshtable.epoch"], shown["team"], shown["format-version"]) == ("0", "me", "2")
    described = spark_driver.session.sql(f"DESCRIBE EXTENDED {spec.identifier.sql}").collect()
    assert "it's mine" in {row.data_type for row in described}
    assert (
        spark_driver.session.sql(f"SELECT * FROM {spec.identifier.sql}.partitions").columns[0] == "partition"
    )


def test_the_location_carries_the_id_and_goes_with_the_table(
    engine: RefreshEngine, spec: StorageSpec
) -> None:
    engine.storage.create_storage(spec)
    location = engine.metadata.load(spec.identifier).location
    folder = Path(urlsplit(location).path)
    assert spec.table_id in location
    assert folder.is_dir()

    engine.storage.drop_storage(spec.identifier, spec.table_id, location)

    assert not folder.exists()
    assert not engine.catalogs.relation_exists(spec.identifier)


def test_a_given_location_is_used(engine: RefreshEngine, spec: StorageSpec, tmp_path: Path) -> None:
    engine.storage.create_storage(replace(spec, location=str(tmp_path)))

    assert engine.metadata.load(spec.identifier).location == f"{tmp_path}/{spec.table_id}"


def test_files_of_a_table_that_is_gone_are_removed(
    engine: RefreshEngine, spec: StorageSpec, tmp_path: Path
) -> None:
    folder = tmp_path / spec.table_id
    folder.mkdir()
    (folder / "left.parquet").write_text("rows")

    engine.storage.drop_storage(spec.identifier, spec.table_id, str(folder))

    assert not folder.exists()


def test_a_folder_without_the_id_is_never_removed(
    engine: RefreshEngine, spec: StorageSpec, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "precious").write_text("rows")

    with caplog.at_level("WARNING"):
        engine.storage.drop_storage(spec.identifier, spec.table_id, str(tmp_path))

    assert "does not contain the table's id" in caplog.text
    assert (tmp_path / "precious").exists()


def test_a_name_of_somebody_elses_table_or_view_is_refused(
    engine: RefreshEngine, spark_driver: SparkDriver, spec: StorageSpec
) -> None:
    name = spec.identifier.sql
    spark_driver.session.sql(f"CREATE TABLE {name} (a INT) USING iceberg")
    with pytest.raises(TableExists, match="not a materialized table"):
        engine.storage.create_storage(spec)
    assert engine.catalogs.relation_exists(spec.identifier)
    assert engine.metadata.load(spec.identifier).columns == ("a",)

    spark_driver.session.sql(f"DROP TABLE {name}")
    spark_driver.session.sql(f"CREATE VIEW {name} AS SELECT 1 AS a")
    with pytest.raises(TableExists, match="is a view"):
        engine.storage.create_storage(spec)
    assert engine.catalogs.relation_exists(spec.identifier)
    spark_driver.session.sql(f"DROP VIEW {name}")
    assert not engine.catalogs.relation_exists(spec.identifier)


def test_a_table_left_without_its_first_snapshot_gets_it(
    engine: RefreshEngine, spark_driver: SparkDriver, spec: StorageSpec
) -> None:
    spark_driver.session.sql(
        f"CREATE TABLE {spec.identifier.sql} (ds STRING, k INT) USING iceberg "
        f"TBLPROPERTIES ('freshtable.table-id' = '{spec.table_id}')"
    )

    engine.storage.create_storage(spec)

    assert [
        snapshot.created for snapshot in engine.metadata.ancestors(engine.metadata.load(spec.identifier))
    ] == [True]


def test_a_missing_namespace_and_column_are_named(engine: RefreshEngine, spec: StorageSpec) -> None:
    nowhere = TableIdentifier("lake", ("no", "where"), "t")

    with pytest.raises(DefinitionInvalid, match=r"CREATE NAMESPACE lake\.no\.where"):
        engine.storage.create_storage(replace(spec, identifier=nowhere))
    with pytest.raises(DefinitionInvalid, match="has no column dt; its columns are ds, k"):
        engine.storage.create_storage(replace(spec, partition_keys=("dt",)))

    assert not engine.catalogs.relation_exists(spec.identifier)


@pytest.mark.parametrize(("version", "mode"), [("1", None), ("2", "merge-on-read")])
def test_rows_are_merged_on_read_where_the_format_has_delete_files(
    engine: RefreshEngine, spark_driver: SparkDriver, spec: StorageSpec, version: str, mode: str | None
) -> None:
    engine.storage.create_storage(replace(spec, properties={"format-version": version}))

    shown = spark_driver.session.sql(f"SHOW TBLPROPERTIES {spec.identifier.sql}").collect()
    assert {row.key: row.value for row in shown}.get("write.merge.mode") == mode


def test_a_variant_column_needs_a_newer_format(
    engine: RefreshEngine, spark_driver: SparkDriver, spec: StorageSpec
) -> None:
    engine.storage.create_storage(replace(spec, columns=(*spec.columns, Column(name="v", type="variant"))))

    shown = spark_driver.session.sql(f"SHOW TBLPROPERTIES {spec.identifier.sql}").collect()
    assert {row.key: row.value for row in shown}["format-version"] == "3"


def test_catalogs_that_cannot_hold_materialized_tables_are_named(engine: RefreshEngine) -> None:
    engine.catalogs.check_catalog(TableIdentifier("lake", ("default",), "t"))

    with pytest.raises(CatalogUnsupported, match=r"Catalog spark_catalog .* compare-and-set"):
        engine.catalogs.check_catalog(TableIdentifier("spark_catalog", ("default",), "t"))
    with pytest.raises(DefinitionInvalid, match=r"no catalog lakee; known catalogs: .*lake.*spark_catalog"):
        engine.catalogs.check_catalog(TableIdentifier("lakee", ("default",), "t"))
