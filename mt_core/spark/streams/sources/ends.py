"""The ends of bounded sources: the offset after which they never have further rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from mt_core.spark.connectors.generated import LAST_OFFSET
from mt_core.spark.driver.jvm_objects import class_name, scala_items


def last_offset(rows: DataFrame) -> int | None:
    """Return the offset up to which each source of the stream *rows* must be read.

    Return None if a source is unbounded.
    """
    plan = rows._jdf.queryExecution().analyzed()
    ends = [_end(leaf) for leaf in scala_items(plan.collectLeaves()) if leaf.isStreaming()]
    bounds = [end for end in ends if end is not None]
    return max(bounds) if bounds and len(bounds) == len(ends) else None


def has_ended(offsets: Sequence[Any], last: int | None) -> bool:
    """Return whether sources at *offsets* have delivered all their rows, up to offset *last*."""
    return (
        last is not None and bool(offsets) and all(isinstance(each, int) and each >= last for each in offsets)
    )


def _end(leaf: Any) -> int | None:
    if class_name(leaf) != "StreamingRelationV2":
        return None
    last = leaf.extraOptions().get(LAST_OFFSET)
    return None if last is None else int(last)
