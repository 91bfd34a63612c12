"""The threads with which Spark serves rows to Python; each holds the rows of its job until they are read."""

from __future__ import annotations

from mt_core.spark.driver.spark_driver import SparkDriver


def row_servers(driver: SparkDriver) -> dict[int, str]:
    """Return the threads of the JVM that hold rows for us to read, with their names."""
    threads = driver.session._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return {
        int(thread.getId()): str(thread.getName())
        for thread in threads
        if thread.getName().startswith("serve")
    }
