"""Options: which keys CREATE, RESUME and a refresh understand, what they act on, and which of them change no row."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from mt_core.errors import RequestInvalid
from mt_core.model.table import FORMATTER_PREFIX, FORMATTER_SUFFIX
from mt_core.tables.definition.iceberg_properties import NAMES, is_property
from mt_core.tables.settings import TIMEOUT_KEY

CATCH_UP = "catch-up"
SNAPSHOT_PROPERTY = "write.snapshot-property."
_OURS = "freshtable."
_WRITE = "write."
_SPARK = "spark."

_BOOLEAN = re.compile(r"true|false", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_SIZE = re.compile(r"-?[0-9]{1,18}\s*([kmgtp]?b?)", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,9}\s*(ms|s|m|min|h|d)?", re.ASCII | re.IGNORECASE)
_FORMS = {_BOOLEAN: "true or false", _NUMBER: "a number", _DECIMAL: "a number", _SIZE: "a size such as 64MB",
          _SECONDS: "a duration such as 300s"}  # fmt: skip

_ADAPTIVE = "spark.sql.adaptive."
# Settings of Spark that decide how rows are computed and into which files they go, and change none of them.
EXECUTION: Mapping[str, re.Pattern[str]] = {
    "spark.sql.shuffle.partitions": _NUMBER,
    f"{_ADAPTIVE}enabled": _BOOLEAN,
    f"{_ADAPTIVE}advisoryPartitionSizeInBytes": _SIZE,
    f"{_ADAPTIVE}autoBroadcastJoinThreshold": _SIZE,
    f"{_ADAPTIVE}coalescePartitions.enabled": _BOOLEAN,
    f"{_ADAPTIVE}coalescePartitions.initialPartitionNum": _NUMBER,
    f"{_ADAPTIVE}coalescePartitions.minPartitionSize": _SIZE,
    f"{_ADAPTIVE}coalescePartitions.parallelismFirst": _BOOLEAN,
    f"{_ADAPTIVE}forceOptimizeSkewedJoin": _BOOLEAN,
    f"{_ADAPTIVE}localShuffleReader.enabled": _BOOLEAN,
    f"{_ADAPTIVE}maxShuffledHashJoinLocalMapThreshold": _SIZE,
    f"{_ADAPTIVE}optimizeSkewsInRebalancePartitions.enabled": _BOOLEAN,
    f"{_ADAPTIVE}rebalancePartitionsSmallPartitionFactor": _DECIMAL,
    f"{_ADAPTIVE}skewJoin.enabled": _BOOLEAN,
    f"{_ADAPTIVE}skewJoin.skewedPartitionFactor": _DECIMAL,
    f"{_ADAPTIVE}skewJoin.skewedPartitionThresholdInBytes": _SIZE,
    "spark.sql.autoBroadcastJoinThreshold": _SIZE,
    "spark.sql.broadcastTimeout": _SECONDS,
    "spark.sql.join.preferSortMergeJoin": _BOOLEAN,
    "spark.sql.files.maxPartitionBytes": _SIZE,
    "spark.sql.files.maxPartitionNum": _NUMBER,
    "spark.sql.files.maxRecordsPerFile": _NUMBER,
    "spark.sql.files.minPartitionNum": _NUMBER,
    "spark.sql.files.openCostInBytes": _SIZE,
}

# Options of a write, under the names of the table properties they stand in for, with the names Iceberg's writer has for them.
WRITE: Mapping[str, str] = {
    "write.format.default": "write-format",
    "write.target-file-size-bytes": "target-file-size-bytes",
    "write.distribution-mode": "distribution-mode",
    "write.spark.fanout.enabled": "fanout-enabled",
    "write.spark.advisory-partition-size-bytes": "advisory-partition-size",
    "write.parquet.compression-codec": "compression-codec",
    "write.parquet.compression-level": "compression-level",
    "write.orc.compression-codec": "compression-codec",
    "write.orc.compression-strategy": "compression-strategy",
    "write.avro.compression-codec": "compression-codec",
    "write.avro.compression-level": "compression-level",
    **{
        f"write.{name}": name
        for name in (
            "write-format", "fanout-enabled", "advisory-partition-size", "compression-codec", "compression-level",
            "compression-strategy",
        )
    },
}  # fmt: skip

# Options of Flink's tables and jobs that are understood, and have no effect here.
FLINK = frozenset({
    "auto-compaction", "compaction.file-size", "compaction.parallelism", "format", "partition.default-name",
    "partition.time-extractor.class", "partition.time-extractor.kind", "partition.time-extractor.timestamp-formatter",
    "partition.time-extractor.timestamp-pattern", "scan.parallelism", "sink.parallelism",
    "sink.partition-commit.delay", "sink.partition-commit.policy.class", "sink.partition-commit.policy.kind",
    "sink.partition-commit.success-file.name", "sink.partition-commit.trigger",
    "sink.partition-commit.watermark-time-zone", "sink.rolling-policy.check-interval", "sink.rolling-policy.file-size",
    "sink.rolling-policy.rollover-interval", "sink.shuffle-by-partition.enable", "source.monitor-interval",
})  # fmt: skip
# The same in executionConfig.
FLINK_EXECUTION = frozenset({
    "execution.target", "parallelism.default", "pipeline.jars", "pipeline.max-parallelism", "pipeline.name", "table.dml-sync",
    "table.exec.resource.default-parallelism",
})  # fmt: skip

BATCH = ("execution.runtime-mode", "batch")


def check_table_options(options: Iterable[str], table: str) -> tuple[str, ...]:
    """Return a warning for options of a CREATE without effect; raises RequestInvalid for one that is not known."""
    without = []
    for key in options:
        if key in FLINK:
            without.append(key)
        elif not is_table_option(key):
            raise _unknown(
                key, f"WITH of {table}", {*NAMES, *FLINK, TIMEOUT_KEY, f"{FORMATTER_PREFIX}<column>{FORMATTER_SUFFIX}"}
            )
    return _without_effect(without, table)


def is_table_option(key: str) -> bool:
    """Return whether *key* is a date-formatter, the time a refresh may take, or a property of Iceberg's tables."""
    formatter = key.startswith(FORMATTER_PREFIX) and key.endswith(FORMATTER_SUFFIX)
    return formatter or key == TIMEOUT_KEY or is_property(key)


def check_dynamic_options(options: Mapping[str, str], where: str, *others: str) -> tuple[str, ...]:
    """Return a warning for options of RESUME or of a refresh without effect; raises RequestInvalid for one that is not known."""
    for key, value in options.items():
        if key.startswith(SNAPSHOT_PROPERTY) and not key.removeprefix(SNAPSHOT_PROPERTY).startswith(_OURS):
            continue
        if key not in FLINK and key not in WRITE:
            _check_setting(key, value, where, {*EXECUTION, *WRITE, *FLINK, *others})
    return _without_effect([key for key in options if key in FLINK], where)


def check_execution_config(config: Mapping[str, str], where: str) -> None:
    """Raise RequestInvalid for a setting that a refresh does not take, or whose value is impossible."""
    for key, value in config.items():
        if key not in FLINK_EXECUTION and (key, value.lower()) != BATCH:
            _check_setting(key, value, where, {*EXECUTION, *FLINK_EXECUTION})


def write_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Iceberg's writer that *options* of a refresh stand for; later ones win."""
    found = {}
    for key, value in options.items():
        if key.startswith(SNAPSHOT_PROPERTY):
            found[key.removeprefix(_WRITE)] = value
        elif key in WRITE:
            found[WRITE[key]] = value
    return found


def acting(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of *options* that have an effect on a refresh."""
    return {key: value for key, value in options.items() if key in EXECUTION or write_options({key: value})}


def execution_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Spark among *options* of a refresh."""
    return {key: value for key, value in options.items() if key in EXECUTION}


def _check_setting(key: str, value: str, where: str, known: Collection[str]) -> None:
    if key not in EXECUTION:
        if key.startswith(_SPARK):
            raise RequestInvalid(
                f"{where}: {key} cannot be set for a refresh{_meant(key, known)}; it takes settings that change no row, "
                f"such as spark.sql.shuffle.partitions. SET '{key}' before CREATE or ALTER … AS keeps it with the table."
            )
        raise _unknown(key, where, known)
    if not EXECUTION[key].fullmatch(value.strip()):
        raise RequestInvalid(f"{where}: {key} = '{value}' cannot be used; expected {_FORMS[EXECUTION[key]]}.")


def _unknown(key: str, where: str, known: Collection[str]) -> RequestInvalid:
    return RequestInvalid(
        f"{where}: there is no option {key}{_meant(key, known) or '; docs/sql.md lists those there are'}."
    )


def _meant(key: str, known: Collection[str]) -> str:
    near = get_close_matches(key, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _without_effect(keys: Collection[str], where: str) -> tuple[str, ...]:
    if not keys:
        return ()
    return (f"{where}: {', '.join(sorted(keys))}: understood, but without effect here.",)
