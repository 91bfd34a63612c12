from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.durations import longest_first, unit
from tests.postgres import find_binaries, fresh_database, start_postgres

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

    from mt_core.spark.driver.spark_driver import SparkDriver

START_TIMEOUT_S = 180
# After so long a slow test hangs, whatever else the machine does.
SLOW_S = 900
CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_databases = count(1)
# No test fails for the time that an example took: machines are slow at times.
# Where CI is set, all runs draw the same examples.
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
    """Collect the tests; the collector of garbage looks at nothing of them, as all stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the modules that take longest begin first: no process is left with a long one
    when the others are done.
    """
    for item in items:
        if item.get_closest_marker("timeout") is None and any(
            map(item.get_closest_marker, ("slow", "kills"))
        ):
            item.add_marker(pytest.mark.timeout(SLOW_S))
    items[:] = longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Let `--dist loadfile` give some modules to a process together."""
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    return ByUnit(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server, started when the first test asks for it."""
    if find_binaries() is None:
        pytest.fail("there is no PostgreSQL server: install postgresql, or the package pgserver")
    # Not a pytest folder: those are closed to the account that the server runs under.
    folder = Path(tempfile.mkdtemp(prefix="freshtable-postgres-"))
    try:
        with start_postgres(folder) as url:
            yield url
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    with fresh_database(postgres_url, f"test_{next(_databases)}") as url:
        yield url


@pytest.fixture(scope="session")
def started_driver(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[SparkDriver]:
    """One real Spark for the whole test session."""
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
                # Spark's other one for local files starts a process for each file that it renames.
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
    """Return the driver when it takes work, also after a test has killed its JVM."""
    from tests.support.gateway.own_process import wait_until

    # A JVM that has just died is READY until its end has been noticed.
    wait_until(lambda: driver.wait_ready(START_TIMEOUT_S) and driver.answers(), "no Spark", START_TIMEOUT_S)
    return driver


@pytest.fixture(scope="module")
def module_driver(started_driver: SparkDriver) -> SparkDriver:
    """The driver for what all tests of a module share, ready again if a module before has killed its JVM."""
    return _ready(started_driver)


@pytest.fixture
def spark_driver(started_driver: SparkDriver) -> Iterator[SparkDriver]:
    """The driver, ready again if a test before has killed its JVM;
    whatever a test has left running ends with it.
    """
    yield _ready(started_driver)
    if started_driver.answers():
        started_driver.session.sparkContext.cancelAllJobs()
