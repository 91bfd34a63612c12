"""A Spark driver without a gateway.

It has the gateway's jars, and a catalog of its own in a folder that is removed at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bare_session import driver_settings
from mt_core.spark.driver.spark_driver import SparkDriver

START_S = 180.0


@contextmanager
def bare_driver() -> Iterator[tuple[SparkDriver, Path]]:
    """Yield a driver that is ready, and its folder."""
    with TemporaryDirectory(prefix="freshtable-bench-") as name:
        folder = Path(name)
        driver = SparkDriver(driver_settings(folder))
        driver.start()
        try:
            driver.wait_ready(START_S)
            yield driver, folder
        finally:
            driver.stop()
