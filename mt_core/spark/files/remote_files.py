"""Remote files: on Spark's file systems, or in object stores through Arrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from mt_core.base.secrets import without_passwords
from mt_core.errors import ConfigError, DefinitionInvalid, EngineUnavailable
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.file_systems import check_file_system
from mt_core.spark.files.hadoop_files import Files

# Arrow's names of the URI schemes.
_BY_ARROW = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
_LIMIT, _LONGEST_S = "retry_limit_seconds", 30
# Schemes from which Spark itself loads jars.
_BY_SPARK = frozenset({"ivy", "http", "https", "ftp"})


class RemoteFile(Protocol):
    """A remote file, of which readers never see a partial version.

    Raises OSError, ArrowException and EngineUnavailable.
    """

    def exists(self) -> bool: ...

    def write(self, text: str, *, replace: bool) -> None:
        """Write the file. Raises FileExistsError if the store detects a concurrent writer."""

    def copy_here(self, target: Path) -> None:
        """Copy the file to the local path *target*."""


def is_object(uri: str) -> bool:
    """Return whether a URI is in an object store that Arrow supports."""
    return urlsplit(uri).scheme in _BY_ARROW


class ObjectFile(RemoteFile):
    """An object in an object store, which Arrow accesses with credentials from the environment."""

    def __init__(self, uri: str) -> None:
        place = f"{_BY_ARROW[urlsplit(uri).scheme]}{uri[uri.index(':') :]}"
        self._system, self._path = fs.FileSystem.from_uri(limited(place))

    def exists(self) -> bool:
        return bool(self._system.get_file_info(self._path).type != fs.FileType.NotFound)

    def write(self, text: str, *, replace: bool) -> None:
        # The object becomes visible when the stream is closed.
        with self._system.open_output_stream(self._path) as stream:
            stream.write(text.encode())

    def copy_here(self, target: Path) -> None:
        with self._system.open_input_stream(self._path) as stream, target.open("wb") as file:
            shutil.copyfileobj(stream, file)


class SparkFile(RemoteFile):
    """A file on one of Spark's file systems, accessed with Spark's settings."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        self._files, self._uri = Files(session), uri

    def exists(self) -> bool:
        with _as_os_error():
            return self._files.exists(self._uri)

    def write(self, text: str, *, replace: bool) -> None:
        files, part = self._files, f"{self._uri}.{uuid4().hex}"
        with _as_os_error():
            files.write(part, text)
            if replace:
                # A crash after this leaves the new text in the part file.
                files.delete(self._uri)
            is_late = not files.renamed(part, self._uri)
            if is_late:
                files.delete(part)
        if is_late:
            raise FileExistsError(f"another writer has written {self._uri}")

    def copy_here(self, target: Path) -> None:
        with _as_os_error():
            self._files.copy_here(self._uri, target)


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as cause:
        error = translate(cause)
        raise error if isinstance(error, EngineUnavailable) else OSError(error.message) from cause


def limited(uri: str) -> str:
    """Return *uri* with a retry limit for Google's client. Its own limit is 15 minutes."""
    if not uri.startswith("gs:") or _LIMIT in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}{_LIMIT}={_LONGEST_S}"


def fetch_jar(session: SparkSession, uri: str, target: Path) -> bool:
    """Copy a remote jar to a local file as `fetch_file` does. Return False if Spark loads the jar itself."""
    if urlsplit(uri).scheme in _BY_SPARK:
        return False
    fetch_file(session, uri, target, "ADD JAR")
    return True


def fetch_file(session: SparkSession, uri: str, target: Path, what: str) -> None:
    """Copy a remote file, which *what* needs, to a local file.

    Spark reads the file if Spark has its file system. If not, Arrow reads it from an object store. Raises
    DefinitionInvalid for a file that cannot be read, and ConfigError if the jar of a file system is
    missing.
    """
    shown, has_file_system = without_passwords(uri), True
    try:
        check_file_system(session, uri, f"{what}: {shown}")
    except ConfigError:
        if not is_object(uri):
            raise
        has_file_system = False
    try:
        file = SparkFile(session, uri) if has_file_system else ObjectFile(uri)
        file.copy_here(target)
    except (OSError, pa.ArrowException) as cause:
        reason = without_passwords(str(cause)).rstrip(".")
        raise DefinitionInvalid(f"{what}: {shown} cannot be read: {reason}.") from cause
