"""A SparkSession without a gateway, with the gateway's jars and catalog.

The benchmark `startup` starts it in a separate process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from mt_core.spark.driver.conf import DriverSettings, prepare_files, spark_conf
from mt_core.spark.driver.jars import default_jars_dir, jar_conf

READY = "ready"


def driver_settings(folder: Path) -> DriverSettings:
    """Return the settings of a Spark whose catalog, tables and logs are in *folder*."""
    return DriverSettings(
        catalog_url=f"jdbc:sqlite:file:{folder}/catalog.db",
        warehouse=str(folder / "warehouse"),
        jars_dir=default_jars_dir(os.environ),
        log_dir=folder / "logs",
        environ=dict(os.environ),
    )


def bare_session(folder: Path) -> SparkSession:
    """Start Spark as a user's own program would, and run one statement."""
    settings = driver_settings(folder)
    prepare_files(settings)
    conf = spark_conf(settings)
    builder = SparkSession.builder
    for key, value in {**conf, **jar_conf(settings.jars_dir, conf)}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.default")
    return spark


def main(folder: Path) -> None:
    """Run until standard input ends."""
    spark = bare_session(folder)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
