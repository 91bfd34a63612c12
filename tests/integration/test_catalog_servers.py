"""The REST catalogs and the object store of the tests hold what Spark writes, and survive kill -9."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import ConfigError
from mt_core.spark.driver.file_systems import check_catalog
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH
from tests.iceberg_server import IcebergServer
from tests.integration.spark_catalog import spark_catalog
from tests.object_store import ObjectStore, load_aws
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DEEP = pytest.mark.skipif(DEPTH == 1, reason="the servers are not ours; other tests of CI write to them")


@DEEP
def test_a_table_in_icebergs_own_server_survives_a_kill(
    spark_driver: SparkDriver, rest_server: IcebergServer
) -> None:
    session = spark_driver.new_session()

    with spark_catalog(session, rest_server.rest_options) as catalog:
        rows = written_over_a_kill(session, f"{catalog}.{catalog}", rest_server.process)

    assert rows == [1, 2, 3]


@pytest.fixture(params=["rest", "jdbc"])
def options_on_s3(
    request: pytest.FixtureRequest, object_store: ObjectStore, postgres_url: str
) -> Mapping[str, str]:
    if request.param == "rest":
        return object_store.rest_options
    database = f"jdbc:postgresql://{postgres_url.partition('@')[2]}?user=freshtable"
    warehouse = {"type": "jdbc", "uri": database, "warehouse": f"s3://{object_store.bucket}/warehouse"}
    return {**warehouse, "jdbc.schema-version": "V1", **object_store.file_options}


@DEEP
def test_a_table_on_s3_survives_a_kill(
    spark_driver: SparkDriver, object_store: ObjectStore, options_on_s3: Mapping[str, str]
) -> None:
    session = spark_driver.new_session()
    load_aws(session)

    with spark_catalog(session, options_on_s3) as catalog:
        rows = written_over_a_kill(session, f"{catalog}.{catalog}", object_store.process)

    assert rows == [1, 2, 3]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"credential": "nobody:nothing"}, "with the warehouse s3://ice/, and its server does not list"),
        ({"warehouse": "s3://nowhere/"}, "with the warehouse s3://nowhere/, and its server does not list"),
    ],
    ids=["credential", "warehouse"],
)
def test_a_server_that_refuses_the_settings_of_the_lake_is_named_with_the_reason(
    spark_driver: SparkDriver, object_store: ObjectStore, wrong: Mapping[str, str], reason: str
) -> None:
    session = session_with_lake(spark_driver, {**object_store.rest_options, **wrong})

    with pytest.raises(ConfigError) as refusal:
        check_catalog(session)

    message = refusal.value.message
    assert message.startswith(f"catalog.uri is {object_store.rest_uri} {reason} the namespaces: ")
    assert message.endswith("; correct catalog.uri, catalog.warehouse or the credentials in catalog.options.")
    assert object_store.secret_key not in message


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"warehouse": "s3://nowhere/w"}, "The specified bucket does not exist"),
        ({"s3.secret-access-key": "wrong"}, "Forbidden"),
        ({"s3.endpoint": "http://127.0.0.1:1"}, "Connection refused"),
    ],
    ids=["bucket", "key", "endpoint"],
)
def test_a_warehouse_on_s3_that_cannot_be_written_is_refused_with_the_reason_and_a_way_out(
    spark_driver: SparkDriver, object_store: ObjectStore, wrong: Mapping[str, str], reason: str
) -> None:
    options = {"type": "jdbc", "warehouse": "s3://lake/w", **object_store.file_options, **wrong}
    session = session_with_lake(spark_driver, options)

    with pytest.raises(ConfigError) as refusal:
        check_catalog(session)

    message = refusal.value.message
    assert message.startswith(f"catalog.warehouse is {options['warehouse']}, and the gateway could not write")
    assert reason in message
    assert message.endswith(
        "; create the bucket, or correct the credentials, catalog.options.client.region or, for a store "
        "other than AWS, catalog.options.s3.endpoint."
    )


def session_with_lake(driver: SparkDriver, options: Mapping[str, str]) -> SparkSession:
    """Return a session in which the catalog `lake` has *options*."""
    session = driver.new_session()
    load_aws(session)
    for key, value in options.items():
        session.conf.set(f"spark.sql.catalog.lake.{key}", value)
    return session


def written_over_a_kill(session: SparkSession, namespace: str, server: ServerProcess) -> list[int]:
    """Write rows before and after a kill of the server, and return all that are in the table."""
    sql: Callable[[str], object] = session.sql
    sql(f"CREATE NAMESPACE {namespace}")
    sql(f"CREATE TABLE {namespace}.numbers (n INT) USING iceberg")
    sql(f"INSERT INTO {namespace}.numbers VALUES (1), (2)")

    server.kill()
    server.start()
    sql(f"INSERT INTO {namespace}.numbers VALUES (3)")

    return [row.n for row in session.sql(f"SELECT n FROM {namespace}.numbers ORDER BY n").collect()]
