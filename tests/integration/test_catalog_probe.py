"""What a catalog can do with tables is found on a scratch table, and a catalog that lacks it is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mt_core.errors import CatalogUnsupported, DefinitionInvalid
from mt_core.model.catalog import CatalogAbilities
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.plugins import close_plugins, plugins_of
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.catalog_probe import probe
from mt_core.spark.refresh.engine import spark_engine
from tests.iceberg_server import IcebergServer
from tests.integration.rest_catalog import NESSIE, WAREHOUSE, Lack, rest_catalog
from tests.integration.spark_catalog import spark_catalog
from tests.object_store import ObjectStore, load_aws
from tests.support.gateway.own_process import wait_until
from tests.support.listing import paths_below

pytestmark = [pytest.mark.spark]
SERVED = CatalogAbilities(has_views=False, takes_purge=True, deletes_files=False, chooses_locations=True)


class World:
    """The catalog of a server, as Freshtable uses it."""

    def __init__(self, driver: SparkDriver, catalog: str) -> None:
        self.contexts, self.catalog = SparkContexts(driver), catalog
        self.engine = spark_engine(self.contexts)
        self.table = TableIdentifier(catalog, ("made",), "t")
        driver.session.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.made")

    def abilities(self) -> CatalogAbilities:
        with self.contexts.working():
            return self.contexts.table_catalogs.abilities(self.table)

    def tables(self) -> list[str]:
        session = self.contexts.driver.session
        return [row.tableName for row in session.sql(f"SHOW TABLES IN {self.catalog}.made").collect()]


@contextmanager
def served(driver: SparkDriver, folder: Path, lacks: Collection[Lack] = ()) -> Iterator[World]:
    with rest_catalog(folder / "server", lacks) as uri:
        options = {"type": "rest", "uri": uri, "warehouse": WAREHOUSE}
        with spark_catalog(driver.session, options) as catalog:
            yield World(driver, catalog)


def test_a_server_that_keeps_all_is_accepted_and_left_without_the_scratch_table(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    with served(spark_driver, tmp_path) as world:
        world.engine.catalogs.check_catalog(world.table)

        assert world.abilities() == SERVED
        assert world.tables() == []
        left = [path for path in paths_below(tmp_path / "server") if path.is_file()]
        assert [path.name for path in left if path.suffix in {".avro", ".parquet"}] == []


@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        (NESSIE, "does not keep earlier snapshots of a table and does not keep branches of a table"),
        ({Lack.HISTORY}, "does not keep earlier snapshots of a table"),
        ({Lack.PROPERTIES}, "does not keep properties of a table"),
        (
            {Lack.COMPARISON},
            "does not refuse a commit to a branch that another commit has moved in the meantime",
        ),
        ({Lack.PURGE, Lack.DROP_WITHOUT_PURGE}, "does not drop tables"),
        ({Lack.METADATA_LOCATION}, "does not send the location of a table's metadata"),
        ({Lack.SCANS_OF_CLIENTS}, "does not leave it to clients which files of a table they read"),
    ],
    ids=["nessie", "history", "properties", "comparison", "drop", "location", "scans"],
)
def test_a_server_that_lacks_what_a_table_needs_is_refused_in_words(
    spark_driver: SparkDriver, tmp_path: Path, lacks: Collection[Lack], words: str
) -> None:
    with served(spark_driver, tmp_path, lacks) as world:
        with pytest.raises(CatalogUnsupported) as refused:
            world.engine.catalogs.check_catalog(world.table)

        assert f"Catalog {world.catalog} cannot hold tables" in refused.value.message
        assert words in refused.value.message


@pytest.mark.parametrize(
    ("lack", "expected"),
    [
        (Lack.STAGED_CREATION, {"creates_with_snapshot": False}),
        (Lack.PURGE, {"takes_purge": False}),
        (Lack.DROP_WITHOUT_PURGE, {}),
    ],
)
def test_a_server_that_lacks_something_else_is_accepted(
    spark_driver: SparkDriver, tmp_path: Path, lack: Lack, expected: dict[str, bool]
) -> None:
    with served(spark_driver, tmp_path, {lack}) as world:
        abilities = world.abilities()

        assert {name for name in expected if getattr(abilities, name) is not expected[name]} == set()
        assert abilities.lacking == ()
        assert world.tables() == []


def test_the_abilities_are_kept(spark_driver: SparkDriver, tmp_path: Path) -> None:
    with served(spark_driver, tmp_path) as world:
        first = world.abilities()

        assert world.abilities() is first


def test_a_namespace_that_does_not_exist_is_named(spark_driver: SparkDriver, tmp_path: Path) -> None:
    with (
        served(spark_driver, tmp_path) as world,
        pytest.raises(DefinitionInvalid, match=r"no namespace \w+\.other; create it first"),
    ):
        world.engine.catalogs.check_catalog(TableIdentifier(world.catalog, ("other",), "t"))


def test_icebergs_jdbc_catalog_has_the_abilities_that_are_assumed_of_it(spark_driver: SparkDriver) -> None:
    contexts = SparkContexts(spark_driver)

    with contexts.working() as session:
        found = probe(session, contexts.catalogs.iceberg_catalog("lake"), ("default",))
        assumed = contexts.table_catalogs.abilities(TableIdentifier("lake", ("default",), "t"))

    assert found.lacking == assumed.lacking == ()
    assert (found.creates_with_snapshot, found.has_views, found.chooses_locations) == (True, True, False)
    assert assumed == CatalogAbilities()


@pytest.mark.slow
def test_icebergs_own_server_has_all_abilities(spark_driver: SparkDriver, rest_server: IcebergServer) -> None:
    with spark_catalog(spark_driver.session, rest_server.rest_options) as catalog:
        abilities = World(spark_driver, catalog).abilities()

    assert abilities == CatalogAbilities(takes_purge=True, deletes_files=True, chooses_locations=True)


@pytest.mark.slow
def test_seaweedfs_has_all_abilities(spark_driver: SparkDriver, object_store: ObjectStore) -> None:
    load_aws(spark_driver.session)
    with spark_catalog(spark_driver.session, object_store.rest_options) as catalog:
        abilities = World(spark_driver, catalog).abilities()

    assert abilities.lacking == ()
    assert abilities.creates_with_snapshot


def test_the_catalog_of_a_server_is_closed_with_its_session(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    with rest_catalog(tmp_path / "server") as uri:
        session = spark_driver.new_session()
        with spark_catalog(session, {"type": "rest", "uri": uri, "warehouse": WAREHOUSE}) as name:
            session.sql(f"SHOW NAMESPACES IN {name}").collect()
            catalog = plugins_of(session).apply(name).icebergCatalog()

            close_plugins(session, spark_driver.session)

            wait_until(lambda: is_closed(catalog), "the catalog was not closed")


def is_closed(catalog: Any) -> bool:
    try:
        catalog.listNamespaces()
    except SPARK_ERRORS as error:
        return "shut down" in str(error)
    return False
