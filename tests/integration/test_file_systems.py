"""Where a catalog keeps its files: whether Spark can work there, and that DROP removes them
by the catalog's own means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import ConfigError
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.file_systems import check_catalog, check_file_system
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.tables.engine import StorageSpec

pytestmark = pytest.mark.spark
LAKE = "spark.sql.catalog.lake"
HADOOP_IO = "org.apache.iceberg.hadoop.HadoopFileIO"
ADD_S3A = "run `freshtable jars add s3a` on the gateway's machine and start the gateway again."
ABSENT_IO = "org.example.StoreFileIO"


@pytest.fixture
def session(spark_driver: SparkDriver) -> SparkSession:
    return spark_driver.new_session()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_warehouse_that_can_be_written_is_taken_and_left_empty(
    session: SparkSession, tmp_path: Path, scheme: str
) -> None:
    session.conf.set(f"{LAKE}.warehouse", f"{scheme}{tmp_path}/warehouse")

    check_catalog(session)

    assert list((tmp_path / "warehouse").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "lacks", "way_out"),
    [
        (
            {"warehouse": "s3a://lake/warehouse"},
            "a file system for s3a://",
            "write s3:// in its place, and run `freshtable jars add aws` on the gateway's machine",
        ),
        (
            {"warehouse": "gs://lake/warehouse"},
            "a file system for gs://",
            "run `freshtable jars add gcp` and set catalog.options.io-impl to ",
        ),
        (
            {"warehouse": "s3://lake/warehouse", "io-impl": ABSENT_IO},
            ABSENT_IO,
            "run `freshtable jars add aws` on the gateway's machine and start the gateway again.",
        ),
    ],
)
def test_a_warehouse_whose_jars_are_missing_is_refused_before_anything_is_created(
    session: SparkSession, settings: dict[str, str], lacks: str, way_out: str
) -> None:
    for key, value in settings.items():
        session.conf.set(f"{LAKE}.{key}", value)

    with pytest.raises(ConfigError) as caught:
        check_catalog(session)

    message = caught.value.message
    assert f"catalog.warehouse is {settings['warehouse']}, and Spark does not have {lacks}: " in message
    assert way_out in message


def test_a_warehouse_that_cannot_be_written_is_refused_with_the_reason(
    session: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    session.conf.set(f"{LAKE}.warehouse", f"{tmp_path}/file/warehouse")

    with pytest.raises(ConfigError) as caught:
        check_catalog(session)

    assert re.fullmatch(
        rf"catalog\.warehouse is {tmp_path}/file/warehouse, and the gateway could not write, read and delete "
        r"a file there: .*Parent path is not a directory: .*; let the gateway's user write there, or set "
        r"catalog\.warehouse to another folder\.",
        caught.value.message,
    )


@pytest.mark.parametrize(
    ("scheme", "way_out"),
    [
        ("s3", f"write s3a:// in its place, and {ADD_S3A}"),
        ("s3n", f"write s3a:// in its place, and {ADD_S3A}"),
        ("s3a", ADD_S3A),
        ("gs", "add gcs-connector to spark.jars."),
        ("odd", "use a file or hdfs://, or add the jar that has it to spark.jars."),
    ],
)
def test_a_missing_file_system_is_refused_with_its_jar_and_only_with_ways_out_that_work(
    session: SparkSession, scheme: str, way_out: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_file_system(session, f"{scheme}://bucket/c", "Checkpoint c")

    assert caught.value.message.startswith(f"Checkpoint c: Spark has no file system for {scheme}://, ")
    assert caught.value.message.endswith(f"; {way_out}")


@pytest.fixture
def objects(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[TableIdentifier]:
    """A name in a catalog that says how its files are written, as one on an object store does."""
    conf, prefix = spark_driver.session.conf, f"spark.sql.catalog.objects_{uuid4().hex[:8]}"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:file:{tmp_path}/objects.db",
        ".jdbc.schema-version": "V1",
        ".cache-enabled": "false",
        ".warehouse": str(tmp_path / "warehouse"),
        ".io-impl": HADOOP_IO,
    }
    for key, value in settings.items():
        conf.set(prefix + key, value)
    name = prefix.rpartition(".")[2]
    spark_driver.session.sql(f"CREATE NAMESPACE {name}.default")
    yield TableIdentifier(name, ("default",), "kept")
    for key in settings:
        conf.unset(prefix + key)


def test_drop_and_clean_up_reach_the_files_of_a_catalog_that_says_how_it_writes_them(
    spark_driver: SparkDriver, objects: TableIdentifier
) -> None:
    engine, table_id = spark_engine(SparkContexts(spark_driver)), str(uuid4())
    columns = (Column(name="id", type="int"),)
    engine.storage.create_storage(StorageSpec(identifier=objects, table_id=table_id, columns=columns))
    spark_driver.session.sql(f"INSERT INTO {objects.sql} VALUES (1)")
    location = Path(engine.metadata.load(objects).location)
    orphan, neighbour = location / "data" / "orphan.parquet", Path(f"{location}_0") / "file"
    orphan.write_bytes(b"left by a writer that died")
    neighbour.parent.mkdir()
    neighbour.write_text("of another table")

    engine.housekeeping.remove_orphans(objects, datetime.now(UTC) + timedelta(seconds=1))
    left = orphan.exists()
    engine.storage.drop_storage(objects, table_id, str(location))
    engine.storage.drop_storage(objects, table_id, str(location))

    assert not left
    assert [path for path in location.rglob("*") if path.is_file()] == []
    assert neighbour.read_text() == "of another table"
