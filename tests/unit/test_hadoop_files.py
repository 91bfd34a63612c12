"""A rename that a file system refuses by its answer, as HDFS and object stores do; the local one raises."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import EngineError
from mt_core.spark.files.hadoop_files import Files


class FilesThatRefuse(Files):
    """Files on a file system that answers a rename with False."""

    def __init__(self) -> None:
        super().__init__(cast(SparkSession, None))

    def _file_system(self, _path: str) -> Any:
        return SimpleNamespace(rename=lambda _source, _target: False)

    def _path(self, path: str) -> Any:
        return path


def test_a_refused_rename_is_an_error_with_both_paths() -> None:
    with pytest.raises(EngineError, match=r"refused to rename hdfs://a/part to hdfs://a/final\."):
        FilesThatRefuse().move("hdfs://a/part", "hdfs://a/final")


def test_who_expects_another_writer_is_told_that_a_rename_was_refused() -> None:
    assert FilesThatRefuse().renamed("hdfs://a/part", "hdfs://a/final") is False
