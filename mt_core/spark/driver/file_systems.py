"""Checks that Spark can access the warehouse, and that it has the file system of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from pyspark.sql import SparkSession

from mt_core.errors import ConfigError, EngineUnavailable
from mt_core.spark.driver.conf import CATALOG, CHECKED_FILES, IO_IMPL
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes, translate
from mt_core.spark.driver.jvm_objects import java_map, static_member

_PREFIX = "spark.sql.catalog"
_S3 = ("s3", "s3a", "s3n")
_ADD_S3A = "run `freshtable jars add s3a` on the gateway's machine and start the gateway again"
# File systems that Spark's own jars do not contain.
_JARS = {
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "hadoop-azure"),
    "gs": "gcs-connector",
    "oss": "hadoop-aliyun with the SDK of Alibaba Cloud OSS",
    "cosn": "hadoop-cos",
    "obs": "hadoop-huaweicloud",
}
_WAYS_OUT = {
    **{scheme: f"add {jar} to spark.jars" for scheme, jar in _JARS.items()},
    "s3a": _ADD_S3A,
    # Hadoop implements S3 only under the scheme s3a.
    **dict.fromkeys(("s3", "s3n"), f"write s3a:// in its place, and {_ADD_S3A}"),
}
_ADD_AWS = "run `freshtable jars add aws` on the gateway's machine and start the gateway again"
_ADD_FOR_FILES = "run `freshtable jars add {}` and set catalog.options.io-impl to {}"
_ADD_AZURE = _ADD_FOR_FILES.format("azure", "org.apache.iceberg.azure.adlsv2.ADLSFileIO")
_WAREHOUSE_JARS = {
    "s3": _ADD_AWS,
    **dict.fromkeys(("s3a", "s3n"), f"write s3:// in its place, and {_ADD_AWS}"),
    "gs": _ADD_FOR_FILES.format("gcp", "org.apache.iceberg.gcp.gcs.GCSFileIO"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _ADD_AZURE),
}
_ABSENT = (
    "java.lang.ClassNotFoundException",
    "java.lang.NoClassDefFoundError",
    "org.apache.hadoop.fs.UnsupportedFileSystemException",
)
_TEXT = b"written by Freshtable at its start"
# What a REST server answers as long as its settings are wrong.
_REFUSALS = (
    "BadRequestException",
    "ForbiddenException",
    "NoSuchNamespaceException",
    "NotAuthorizedException",
)


def check_catalog(session: SparkSession) -> None:
    """Raise ConfigError if the catalog `lake` cannot be used with its settings.

    In the warehouse of a database's catalog, a file is written, read and deleted. A REST server chooses where
    tables are stored, so it is asked for its namespaces. Raises Spark's errors if the server may recover.
    """
    settings = settings_of(session, CATALOG)
    if settings.get("type") == "rest":
        _check_server(session, settings)
        return
    implementation = session.conf.get(f"{_PREFIX}.{CATALOG}.{IO_IMPL}", "")
    if implementation:
        _check_files(session, {**settings, IO_IMPL: implementation})


def _check_files(session: SparkSession, settings: Mapping[str, str]) -> None:
    warehouse, implementation = settings["warehouse"], settings[IO_IMPL]
    scheme = urlsplit(warehouse).scheme.lower()
    try:
        _try_file(session, file_io(session, settings), f"{warehouse.rstrip('/')}/.freshtable-{uuid4().hex}")
    except SPARK_ERRORS as cause:
        error = translate(cause)
        if isinstance(error, EngineUnavailable):
            raise
        reason = error.message.rstrip(".")
        is_absent = (
            any(name in _ABSENT for name in java_classes(cause)) or "Cannot find constructor" in reason
        )
        if is_absent:
            lacks = f"a file system for {scheme}://" if implementation == CHECKED_FILES else implementation
            text = f"and Spark does not have {lacks}: {reason}"
            way_out = _WAREHOUSE_JARS.get(scheme, "add its jars to spark.jars")
        else:
            text = f"and the gateway could not write, read and delete a file there: {reason}"
            way_out = _access(scheme)
        raise ConfigError(
            f"catalog.warehouse is {warehouse}, {text}; {way_out}.", key="catalog.warehouse"
        ) from cause


def _try_file(session: SparkSession, files: Any, path: str) -> None:
    try:
        stream = files.newOutputFile(path).create()
        stream.write(_TEXT)
        stream.close()
        try:
            content = files.newInputFile(path).newStream()
            content.readAllBytes()
            content.close()
        finally:
            files.deleteFile(path)
    finally:
        static_member(session, "org.apache.hadoop.io.IOUtils.closeStream")(files)


def _access(scheme: str) -> str:
    if scheme in _S3:
        return (
            "create the bucket, or correct the credentials, catalog.options.client.region or, for a store "
            "other than AWS, catalog.options.s3.endpoint"
        )
    if scheme in ("", "file"):
        return "let the gateway's user write there, or set catalog.warehouse to another folder"
    return "correct its address and credentials"


def _check_server(session: SparkSession, settings: Mapping[str, str]) -> None:
    try:
        session.sql(f"SHOW NAMESPACES IN {CATALOG}")
    except SPARK_ERRORS as cause:
        if not any(name.rpartition(".")[2] in _REFUSALS for name in java_classes(cause)):
            raise
        warehouse = f" with the warehouse {settings['warehouse']}" if settings.get("warehouse") else ""
        raise ConfigError(
            f"catalog.uri is {settings.get('uri')}{warehouse}, and its server does not list the namespaces: "
            f"{translate(cause).message.rstrip('.')}; correct catalog.uri, catalog.warehouse or the "
            "credentials in catalog.options.",
            key="catalog.uri",
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
