"""The store in which our operators keep state: RocksDB, the one of Spark's that can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame

from mt_core.spark.driver.jvm_objects import class_name, scala_items

_OPERATOR = "TransformWithState"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


@contextmanager
def state_store_for(rows: DataFrame) -> Iterator[None]:
    """Let the stream *rows*, if it has an operator of ours, be started in the block
    with what the operator needs.

    Spark takes its settings from the session at the start, and from the checkpoint at each further one.
    """
    if not _has_operator(rows):
        yield
        return
    # Expired state is hidden at each access: a stream without new rows needs no batch for it.
    # A batch stores what it has changed, and not all that the store has.
    wanted = {_NO_DATA_BATCHES: "false", _CHANGELOG: "true"}
    conf = rows.sparkSession.conf
    if "RocksDB" not in str(conf.get(_PROVIDER)):
        wanted[_PROVIDER] = _ROCKSDB
    before = {key: conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, text in before.items():
            if text is None:
                conf.unset(key)
            else:
                conf.set(key, text)


def _has_operator(rows: DataFrame) -> bool:
    plans = [rows._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        if not plan.isStreaming():
            continue
        if class_name(plan) == _OPERATOR:
            return True
        plans.extend(scala_items(plan.children()))
    return False
