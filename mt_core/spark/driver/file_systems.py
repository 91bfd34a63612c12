"""File systems: whether Spark can work where a catalog keeps its files, and how a folder there is removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from mt_core.errors import ConfigError
from mt_core.spark.driver.conf import CATALOG
from mt_core.spark.driver.failures import SPARK_ERRORS, translate

IO_IMPL = "io-impl"
_PREFIX = "spark.sql.catalog"
_S3_WAY_OUT = (
    f"for S3 write catalog.warehouse as s3://bucket/folder, set {_PREFIX}.{CATALOG}.{IO_IMPL} to "
    "org.apache.iceberg.aws.s3.S3FileIO, and add Iceberg's iceberg-aws-bundle to spark.jars"
)


def check_warehouse(session: SparkSession) -> None:
    """Raise ConfigError unless Spark has what it takes to read and write the warehouse; nothing there is touched."""
    settings = settings_of(session, CATALOG)
    warehouse, implementation = settings.get("warehouse", ""), settings.get(IO_IMPL, "")
    scheme = urlsplit(warehouse).scheme
    if not implementation and not scheme:
        return
    try:
        if implementation:
            file_io(session, settings)
        else:
            jvm: Any = session._jvm
            jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, _hadoop(session))
    except SPARK_ERRORS as cause:
        what = implementation or f"a file system for {scheme}://"
        raise ConfigError(
            f"catalog.warehouse is {warehouse}, and Spark does not have {what}: {translate(cause).message.rstrip('.')}. "
            f"Add its jars to spark.jars; {_S3_WAY_OUT}."
        ) from cause


def delete_folder(session: SparkSession, catalog: str, folder: str) -> None:
    """Remove all files in a folder of a catalog, by the means with which the catalog writes them."""
    settings = settings_of(session, catalog)
    if settings.get(IO_IMPL):
        # With the slash: a folder whose name goes on after ours is somebody else's.
        file_io(session, settings).deletePrefix(f"{folder.rstrip('/')}/")
        return
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(_hadoop(session)).delete(path, True)


def settings_of(session: SparkSession, catalog: str) -> Mapping[str, str]:
    """Return what is set for a catalog, without `spark.sql.catalog.<name>.`."""
    prefix = f"{_PREFIX}.{catalog}."
    return {key.removeprefix(prefix): value for key, value in session.conf.getAll.items() if key.startswith(prefix)}


def file_io(session: SparkSession, settings: Mapping[str, str]) -> Any:
    """Return Iceberg's FileIO of a catalog that names one."""
    jvm: Any = session._jvm
    properties = jvm.java.util.HashMap()
    for key, value in settings.items():
        properties.put(key, value)
    return jvm.org.apache.iceberg.CatalogUtil.loadFileIO(settings[IO_IMPL], properties, _hadoop(session))


def _hadoop(session: SparkSession) -> Any:
    return session.sparkContext._jsc.hadoopConfiguration()
