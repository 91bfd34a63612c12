"""The data files of table versions, which remain in the JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.jvm_rows import java_type
from mt_core.spark.queries.lineage import shape_of
from mt_core.spark.readings.version_cache import VersionCache

MOST_CACHED_FILES = 100_000
"""The maximum number of files in the cached listings. The positions of deleted rows count as files, too."""

# The new version of one change is the old version of the next.
_listings: VersionCache[Any] = VersionCache(MOST_CACHED_FILES, lambda each: int(each.count()))
# The newest version of each table that was looked up, with its snapshot.
_opened: VersionCache[tuple[str, Any]] = VersionCache(MOST_CACHED_FILES, lambda each: int(each[1].weight()))


def listed_files(session: SparkSession, table: Any, snapshot: str) -> Any:
    """Return the data files of a snapshot, a `freshtable.iceberg.TableFiles`."""
    shape = shape_of(table)
    files = _listings.of(session, shape, snapshot)
    if files is None:
        files = own_class(session, "freshtable.iceberg.TableFiles").of(table, int(snapshot))
        _listings.store(files, session, shape, snapshot)
    return files


def version_files(session: SparkSession, table: Any, snapshot: str) -> Any:
    """Return the data files of a snapshot for look-ups, a `freshtable.files.VersionFiles`.

    It keeps the footers and deleted positions that look-ups read, also those of another version, if a file
    has the same deletes in both.
    """
    shape = shape_of(table)
    at, files = _opened.of(session, shape) or (None, None)
    if at != snapshot:
        listed = listed_files(session, table, snapshot)
        files = own_class(session, "freshtable.files.VersionFiles").of(listed, files)
        _opened.store((snapshot, files), session, shape)
    return files


def value_spans(session: SparkSession, table: Any, snapshot: str, columns: StructType) -> Mapping[str, int]:
    """Return how many integers are between the lowest and the highest value of each of the *columns*.

    The columns are of type INT, BIGINT or DATE. Those of which a file does not say it are missing.
    """
    files = version_files(session, table, snapshot)
    spans = json.loads(files.spans(table, java_type(session, columns)))
    return {name: span for name, span in zip(columns.names, spans, strict=True) if span > 0}
