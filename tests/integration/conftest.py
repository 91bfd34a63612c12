"""One real Spark for the whole test session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mt_core.spark.conf import DriverSettings
from mt_core.spark.driver import SparkDriver
from mt_core.spark.jars import default_jars_dir

START_TIMEOUT_S = 180
FAST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def started_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    home = tmp_path_factory.mktemp("spark")
    driver = SparkDriver(
        DriverSettings(
            catalog_url=f"jdbc:sqlite:file:{home}/catalog.db",
            warehouse=str(home / "warehouse"),
            jars_dir=default_jars_dir(os.environ),
            log_dir=home / "log",
            zone="Europe/Berlin",
            spark_conf={"spark.driver.extraJavaOptions": FAST_JVM, "spark.sql.shuffle.partitions": "2"},
            environ=dict(os.environ),
        )
    )
    driver.start()
    assert driver.wait_ready(START_TIMEOUT_S)
    yield driver
    driver.stop()


@pytest.fixture
def spark_driver(started_driver: SparkDriver) -> SparkDriver:
    """The driver, ready again if a test before has killed its JVM."""
    assert started_driver.wait_ready(START_TIMEOUT_S)
    return started_driver
