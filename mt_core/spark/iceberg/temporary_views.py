"""Temporary views, through which SQL refers to DataFrames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from pyspark.sql import DataFrame

from mt_core.base.identifiers import quote


@contextmanager
def temporary_view(frame: DataFrame) -> Iterator[str]:
    """Yield the quoted name of a temporary view of *frame*, which is dropped after the block."""
    name = f"_view_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield quote(name)
    finally:
        frame.sparkSession.catalog.dropTempView(name)
