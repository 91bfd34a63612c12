"""The state store of our operators: RocksDB, the only store of Spark that supports them."""

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
    """Provide the settings that the operators of *rows* need while the stream is started in the block.

    Spark reads them from the session when the stream starts for the first time, and later from the
    checkpoint.
    """
    if not _has_operator(rows):
        yield
        return
    # Expired state is hidden when it is accessed, so an idle stream needs no batch to remove it. With
    # changelog checkpointing, a batch stores only its changes instead of the whole store.
    settings = {_NO_DATA_BATCHES: "false", _CHANGELOG: "true"}
    conf = rows.sparkSession.conf
    if "RocksDB" not in str(conf.get(_PROVIDER)):
        settings[_PROVIDER] = _ROCKSDB
    before = {key: conf.get(key, None) for key in settings}
    for key, value in settings.items():
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
