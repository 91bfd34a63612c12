from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.durations import longest_first, unit
from tests.postgres import find_binaries, fresh_database, temporary_postgres

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

    from mt_core.spark.driver.spark_driver import SparkDriver
    from tests.iceberg_server import IcebergServer
    from tests.object_store import ObjectStore

START_TIMEOUT_S = 180
# A slow test that takes longer hangs, even on a busy machine.
SLOW_S = 900
CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_databases = count(1)
# No deadline per example, because machines may be slow. In CI, all runs draw the same examples.
settings.register_profile("freshtable", deadline=None)
settings.load_profile("freshtable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--catalog-url", default="", help="Database of the Spark catalog; empty: SQLite in a new folder."
    )
    parser.addoption(
        "--stack",
        choices=("auto", "compose", "local"),
        default=os.environ.get("FRESHTABLE_STACK", "auto"),
        help=(
            "Where the tests' Airflow runs: in containers, in processes of this machine, or wherever it can."
        ),
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests, and exempt them from garbage collection, as they live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest modules first, so that no process still runs one when the others are done."""
    for item in items:
        if item.get_closest_marker("timeout") is None and any(
            map(item.get_closest_marker, ("slow", "kills"))
        ):
            item.add_marker(pytest.mark.timeout(SLOW_S))
    items[:] = longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Make `--dist loadfile` run some modules together in one process."""
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    return ByUnit(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server, started on first use."""
    if find_binaries() is None:
        pytest.fail("there is no PostgreSQL server: install postgresql, or the package pgserver")
    with temporary_postgres() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database for one test."""
    with fresh_database(postgres_url, f"test_{next(_databases)}") as url:
        yield url


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A real S3 with a REST catalog, started on first use. A test that kills its process starts it again."""
    from tests.object_store import running_store

    with running_store(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergServer]:
    """Iceberg's own REST server, started on first use. A test that kills its process starts it again."""
    from tests.iceberg_server import iceberg_server

    with iceberg_server(tmp_path_factory.mktemp("iceberg")) as server:
        yield server


@pytest.fixture(scope="session")
def started_driver(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[SparkDriver]:
    """One real Spark driver for the whole test session."""
    from mt_core.spark.driver.conf import DriverSettings
    from mt_core.spark.driver.jars import default_jars_dir
    from mt_core.spark.driver.spark_driver import SparkDriver
    from tests.class_archive import jvm_options

    home = tmp_path_factory.mktemp("spark")
    driver = SparkDriver(
        DriverSettings(
            catalog_url=pytestconfig.getoption("--catalog-url") or f"jdbc:sqlite:file:{home}/catalog.db",
            warehouse=str(home / "warehouse"),
            jars_dir=default_jars_dir(os.environ),
            log_dir=home / "log",
            temporary=home / "spark tmp",
            zone="Europe/Berlin",
            spark_conf={
                "spark.driver.extraJavaOptions": jvm_options(),
                "spark.sql.shuffle.partitions": "2",
                # Spark's default for local files starts a process for each file that it renames.
                "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
            },
            environ=dict(os.environ),
        )
    )
    driver.start()
    assert driver.wait_ready(START_TIMEOUT_S)
    yield driver
    driver.stop()
    shutil.rmtree(home / "spark tmp", ignore_errors=True)


def _ready(driver: SparkDriver) -> SparkDriver:
    """Wait until the driver accepts work, even if a test has killed its JVM, and return it."""
    from tests.support.gateway.own_process import wait_until

    # The driver is READY until it detects the end of its JVM.
    wait_until(lambda: driver.wait_ready(START_TIMEOUT_S) and driver.answers(), "no Spark", START_TIMEOUT_S)
    return driver


@pytest.fixture(scope="module")
def module_driver(started_driver: SparkDriver) -> SparkDriver:
    """The driver for fixtures of a module; ready even if an earlier module has killed its JVM."""
    return _ready(started_driver)


@pytest.fixture
def spark_driver(started_driver: SparkDriver) -> Iterator[SparkDriver]:
    """The driver for one test, ready even if an earlier test has killed its JVM.

    Spark jobs that the test leaves running are cancelled at its end.
    """
    yield _ready(started_driver)
    if started_driver.answers():
        started_driver.session.sparkContext.cancelAllJobs()
