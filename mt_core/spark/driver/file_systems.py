"""Checks that Spark has the file system classes for a warehouse or for a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from mt_core.errors import ConfigError
from mt_core.spark.driver.conf import CATALOG, CHECKED_FILES, IO_IMPL
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import java_map, static_member

_PREFIX = "spark.sql.catalog"
_S3_WAY_OUT = (
    f"for S3 write catalog.warehouse as s3://bucket/folder, set {_PREFIX}.{CATALOG}.{IO_IMPL} to "
    "org.apache.iceberg.aws.s3.S3FileIO, and add Iceberg's iceberg-aws-bundle to spark.jars"
)
_S3_JARS = "hadoop-aws with its bundle of the AWS SDK"
# File systems that Spark's own jars do not contain.
_JARS = {
    "s3a": _S3_JARS,
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "hadoop-azure"),
    "gs": "gcs-connector",
    "oss": "hadoop-aliyun with the SDK of Alibaba Cloud OSS",
    "cosn": "hadoop-cos",
    "obs": "hadoop-huaweicloud",
}
_WAYS_OUT = {
    **{scheme: f"add {jar} to spark.jars" for scheme, jar in _JARS.items()},
    # Hadoop implements S3 only under the scheme s3a.
    **dict.fromkeys(("s3", "s3n"), f"write s3a:// in its place, and add {_S3_JARS} to spark.jars"),
}


def check_warehouse(session: SparkSession) -> None:
    """Raise ConfigError if Spark lacks the classes for the warehouse. Accesses no file."""
    settings = settings_of(session, CATALOG)
    warehouse, implementation = settings.get("warehouse", ""), settings.get(IO_IMPL, "")
    scheme = urlsplit(warehouse).scheme
    if not implementation and not scheme:
        return
    try:
        if implementation:
            file_io(session, settings)
        else:
            file_system = static_member(session, "org.apache.hadoop.fs.FileSystem.getFileSystemClass")
            file_system(scheme, _hadoop(session))
    except SPARK_ERRORS as cause:
        what = implementation or f"a file system for {scheme}://"
        raise ConfigError(
            f"catalog.warehouse is {warehouse}, and Spark does not have {what}: "
            f"{translate(cause).message.rstrip('.')}. Add its jars to spark.jars; {_S3_WAY_OUT}."
        ) from cause


def check_file_system(session: SparkSession, uri: str, what: str) -> None:
    """Raise ConfigError, with the jar to add, if Spark lacks the file system of *uri*. Accesses no file.

    *what* describes the object at *uri* in the error message.
    """
    scheme = urlsplit(uri).scheme.lower()
    if not scheme:
        return
    try:
        static_member(session, "org.apache.hadoop.fs.FileSystem.getFileSystemClass")(scheme, _hadoop(session))
    except SPARK_ERRORS as cause:
        way_out = _WAYS_OUT.get(scheme, "use a file or hdfs://, or add the jar that has it to spark.jars")
        raise ConfigError(
            f"{what}: Spark has no file system for {scheme}://, {translate(cause).message.rstrip('.')}; "
            f"{way_out}.",
            key=what,
        ) from cause


def settings_of(session: SparkSession, catalog: str) -> Mapping[str, str]:
    """Return the settings of a catalog without their prefix, and without `io-impl` if it is ours."""
    prefix = f"{_PREFIX}.{catalog}."
    return {
        key.removeprefix(prefix): value
        for key, value in session.conf.getAll.items()
        if key.startswith(prefix) and value != CHECKED_FILES
    }


def file_io(session: SparkSession, settings: Mapping[str, str]) -> Any:
    """Return the FileIO of a catalog whose *settings* include `io-impl`."""
    load = static_member(session, "org.apache.iceberg.CatalogUtil.loadFileIO")
    return load(settings[IO_IMPL], java_map(session, settings), _hadoop(session))


def _hadoop(session: SparkSession) -> Any:
    return session.sparkContext._jsc.hadoopConfiguration()
