"""A rename that a file system refuses by its answer, as HDFS and object stores do; the local one raises."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import EngineError
from mt_core.spark.files.hadoop_files import Files
from mt_core.spark.streams import checkpoints
from mt_core.spark.streams.checkpoints import Checkpoints

NO_SESSION = cast(SparkSession, None)


class Store:
    """A file system in memory that answers a rename to an existing file with False."""

    def __init__(self, *files: str) -> None:
        self.files = dict.fromkeys(files, b"")

    def mkdirs(self, _folder: str) -> bool:
        return True

    def create(self, path: str, _overwrite: bool) -> io.BytesIO:
        self.files[path] = b""
        return io.BytesIO()

    def delete(self, path: str, _recursive: bool) -> bool:
        return self.files.pop(path, None) is not None

    def rename(self, source: str, target: str) -> bool:
        if target in self.files:
            return False
        self.files[target] = self.files.pop(source)
        return True


class FilesOfStore(Files):
    def __init__(self, store: Store) -> None:
        super().__init__(NO_SESSION)
        self._store = store

    def _file_system(self, _path: str) -> Any:
        return self._store

    def _path(self, path: str) -> Any:
        return path


def test_a_refused_rename_is_an_error_with_both_paths() -> None:
    files = FilesOfStore(Store("hdfs://a/part", "hdfs://a/final"))

    with pytest.raises(EngineError, match=r"refused to rename hdfs://a/part to hdfs://a/final\."):
        files.move("hdfs://a/part", "hdfs://a/final")


def test_who_expects_another_writer_is_told_that_a_rename_was_refused() -> None:
    assert FilesOfStore(Store("a", "b")).renamed("a", "b") is False


def test_a_folder_of_savepoints_is_writable_even_if_an_earlier_check_was_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store("hdfs://a/saved/probe", "hdfs://a/saved/savepoint.json")
    monkeypatch.setattr(checkpoints, "Files", lambda _session: FilesOfStore(store))

    Checkpoints(NO_SESSION).check_writable("hdfs://a/saved")

    assert list(store.files) == ["hdfs://a/saved/savepoint.json"]
