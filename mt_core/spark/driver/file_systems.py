"""File systems: whether Spark has one for the files of a catalog, and how a folder there is deleted."""

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
# What Spark's own jars do not have.
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
    # Hadoop has S3 under the name s3a alone.
    **dict.fromkeys(("s3", "s3n"), f"write s3a:// in its place, and add {_S3_JARS} to spark.jars"),
}


def check_warehouse(session: SparkSession) -> None:
    """Raise ConfigError unless Spark has the classes that read and write the warehouse; no file is touched."""
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
            f"catalog.warehouse is {warehouse}, and Spark does not have {what}: {translate(cause).message.rstrip('.')}. "
            f"Add its jars to spark.jars; {_S3_WAY_OUT}."
        ) from cause


def check_file_system(session: SparkSession, uri: str, what: str) -> None:
    """Raise ConfigError, naming the jar, unless Spark has the file system of *uri*, which *what* is on; no file is touched."""
    scheme = urlsplit(uri).scheme.lower()
    if not scheme:
        return
    try:
        static_member(session, "org.apache.hadoop.fs.FileSystem.getFileSystemClass")(scheme, _hadoop(session))
    except SPARK_ERRORS as cause:
        way_out = _WAYS_OUT.get(scheme, "use a file or hdfs://, or add the jar that has it to spark.jars")
        raise ConfigError(
            f"{what}: Spark has no file system for {scheme}://, {translate(cause).message.rstrip('.')}; {way_out}.",
            key=what,
        ) from cause


def delete_folder(session: SparkSession, catalog: str, folder: str) -> None:
    """Delete all files in a folder of a catalog, through the FileIO or file system that the catalog writes with."""
    settings = settings_of(session, catalog)
    if settings.get(IO_IMPL):
        # With the slash: a folder whose name continues after this one may belong to another table.
        file_io(session, settings).deletePrefix(f"{folder.rstrip('/')}/")
        return
    path = _path(session, folder)
    path.getFileSystem(_hadoop(session)).delete(path, True)


def missing_folders(session: SparkSession, folder: str) -> tuple[str, ...]:
    """Return the folders above *folder* that are not there, the lowest first."""
    missing: list[str] = []
    path = _path(session, folder).getParent()
    while path is not None and not path.getFileSystem(_hadoop(session)).exists(path):
        missing.append(str(path.toString()))
        path = path.getParent()
    return tuple(missing)


def entries_of(session: SparkSession, folder: str) -> list[str] | None:
    """Return the paths of what is in *folder*, None if there is no such folder."""
    path = _path(session, folder)
    file_system = path.getFileSystem(_hadoop(session))
    if not file_system.exists(path):
        return None
    found = file_system.listStatus(path)
    return [str(found[index].getPath().toString()) for index in range(len(found))]


def full_path(session: SparkSession, folder: str) -> str:
    """Return the path of *folder* with its scheme, and from the root."""
    path = _path(session, folder)
    return str(path.getFileSystem(_hadoop(session)).makeQualified(path).toString())


def _path(session: SparkSession, folder: str) -> Any:
    return static_member(session, "org.apache.hadoop.fs.Path")(folder)


def settings_of(session: SparkSession, catalog: str) -> Mapping[str, str]:
    """Return the settings of a catalog, without `spark.sql.catalog.<name>.`, as if our class for its files were not named."""
    prefix = f"{_PREFIX}.{catalog}."
    return {
        key.removeprefix(prefix): value
        for key, value in session.conf.getAll.items()
        if key.startswith(prefix) and value != CHECKED_FILES
    }


def file_io(session: SparkSession, settings: Mapping[str, str]) -> Any:
    """Return Iceberg's FileIO of a catalog that names one."""
    load = static_member(session, "org.apache.iceberg.CatalogUtil.loadFileIO")
    return load(settings[IO_IMPL], java_map(session, settings), _hadoop(session))


def _hadoop(session: SparkSession) -> Any:
    return session.sparkContext._jsc.hadoopConfiguration()
