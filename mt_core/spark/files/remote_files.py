"""Remote files: in object stores, by Arrow, and on the file systems that Spark has jars for; and copies of them on this machine."""

from __future__ import annotations

import shutil
from enum import Enum, auto
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from mt_core.base.secrets import without_passwords
from mt_core.errors import ConfigError, DefinitionInvalid, EngineUnavailable
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.file_systems import check_file_system
from mt_core.spark.files.folders import Folders

_LOCAL = frozenset({"", "file"})
# Arrow's names of them.
_BY_ARROW = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
_LIMIT, _LONGEST_S = "retry_limit_seconds", 30
# Spark resolves or loads these by itself.
_BY_SPARK = frozenset({"ivy", "http", "https", "ftp"})


class Store(Enum):
    """What reads and writes a file."""

    LOCAL = auto()
    ARROW = auto()
    HADOOP = auto()


def store_of(uri: str) -> Store:
    """Return what reads and writes the file of a URI, or of a path."""
    scheme = urlsplit(uri).scheme.lower()
    return Store.LOCAL if scheme in _LOCAL else Store.ARROW if scheme in _BY_ARROW else Store.HADOOP


def arrow_file(uri: str) -> tuple[Any, str]:
    """Return Arrow's file system of a URI of an object store, and the path there. Raises OSError and ArrowException."""
    scheme, _, rest = uri.partition("://")
    system, path = fs.FileSystem.from_uri(limited(f"{_BY_ARROW[scheme.lower()]}://{rest}"))
    return system, path


def limited(uri: str) -> str:
    """Return a URI of Arrow's that gives up soon: without credentials, Google's client would try for 15 minutes."""
    if not uri.startswith("gs:") or _LIMIT in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}{_LIMIT}={_LONGEST_S}"


def copy_by_arrow(uri: str, target: Path) -> None:
    """Copy an object into a local file. Raises OSError and ArrowException."""
    system, path = arrow_file(uri)
    with system.open_input_stream(path) as stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file)


def fetch_jar(session: SparkSession, uri: str, target: Path) -> bool:
    """Copy a remote jar into a local file as `fetch_file` does; returns False for one that Spark loads from where it is."""
    if urlsplit(uri).scheme.lower() in _BY_SPARK:
        return False
    fetch_file(session, uri, target, "ADD JAR")
    return True


def fetch_file(session: SparkSession, uri: str, target: Path, what: str) -> None:
    """Copy a remote file, which *what* needs, into a local one.

    What Spark has a file system for is read with its settings, another object with the credentials of the environment. Raises
    DefinitionInvalid for a file that cannot be read, ConfigError for a file system without its jar.
    """
    try:
        check_file_system(session, uri, f"{what}: {without_passwords(uri)}")
    except ConfigError:
        if store_of(uri) is not Store.ARROW:
            raise
        _fetch_by_arrow(uri, target, what)
    else:
        _fetch_by_hadoop(session, uri, target, what)


def _fetch_by_arrow(uri: str, target: Path, what: str) -> None:
    try:
        copy_by_arrow(uri, target)
    except (OSError, pa.ArrowException) as cause:
        raise _unreadable(uri, str(cause), what) from cause


def _fetch_by_hadoop(session: SparkSession, uri: str, target: Path, what: str) -> None:
    try:
        Folders(session).copy_here(uri, target)
    except SPARK_ERRORS as cause:
        error = translate(cause)
        raise error if isinstance(error, EngineUnavailable) else _unreadable(uri, error.message, what) from cause


def _unreadable(uri: str, reason: str, what: str) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"{what}: {without_passwords(uri)} cannot be read: {without_passwords(reason).rstrip('.')}."
    )
