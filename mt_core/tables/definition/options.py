"""Options: the keys that CREATE, RESUME and a refresh accept, and which of them change no row.

Three kinds of options affect a refresh: table options, which are stored; dynamic options, which RESUME or a
request adds; and the execution config of FLIP-448. All are checked against lists of known keys when they are
set, because a misspelled option would be silently ignored. Flink's options are accepted with a warning, so
that statements written for Flink run unchanged.

Settings in `EXECUTION` and options in `WRITE` determine how rows are computed and stored, but never which
rows, so they are not part of the fingerprint. Anything that could change a row is stored with the definition,
and changing it requires a rebuild.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from mt_core.base.options import BOOLEAN, INTEGER, SPARK_DURATION, SPARK_SIZE, Form, suggestion
from mt_core.errors import RequestInvalid
from mt_core.model.storage import EQUALITY_DELETE, UPSERT
from mt_core.model.table import FORMATTER_PREFIX, FORMATTER_SUFFIX
from mt_core.tables.definition.iceberg_properties import NAMES, is_property
from mt_core.tables.settings import TIMEOUT_KEY, UPSTREAM_WAIT_KEY, VERIFY_KEY

CATCH_UP = "catch-up"
STRATEGY = "refresh.strategy"
AUTO, FULL, INCREMENTAL = "auto", "full", "incremental"
DOUBLES = "refresh.sums-of-doubles"
EXACT, MERGED = "exact", "merged"
LATE_DATA = "refresh.late-data"
REFRESH, REPORT, IGNORE, RECOMPUTE = "refresh", "report", "ignore", "recompute"
SNAPSHOT_PROPERTY = "write.snapshot-property."
_OURS = "freshtable."
_OURS_ALONE = (TIMEOUT_KEY, UPSTREAM_WAIT_KEY, VERIFY_KEY, STRATEGY, DOUBLES, LATE_DATA, UPSERT)
_WRITE = "write."
_SPARK = "spark."
# The page of the documentation that lists all options.
_PAGE = "docs/sql/create-materialized-table.md"

_DECIMAL = Form(pattern=re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII), name="a number")
_ADAPTIVE = "spark.sql.adaptive."
# Spark settings that determine how rows are computed and written, but never change a row.
EXECUTION: Mapping[str, Form] = {
    "spark.sql.shuffle.partitions": INTEGER,
    f"{_ADAPTIVE}enabled": BOOLEAN,
    f"{_ADAPTIVE}advisoryPartitionSizeInBytes": SPARK_SIZE,
    f"{_ADAPTIVE}autoBroadcastJoinThreshold": SPARK_SIZE,
    f"{_ADAPTIVE}coalescePartitions.enabled": BOOLEAN,
    f"{_ADAPTIVE}coalescePartitions.initialPartitionNum": INTEGER,
    f"{_ADAPTIVE}coalescePartitions.minPartitionSize": SPARK_SIZE,
    f"{_ADAPTIVE}coalescePartitions.parallelismFirst": BOOLEAN,
    f"{_ADAPTIVE}forceOptimizeSkewedJoin": BOOLEAN,
    f"{_ADAPTIVE}localShuffleReader.enabled": BOOLEAN,
    f"{_ADAPTIVE}maxShuffledHashJoinLocalMapThreshold": SPARK_SIZE,
    f"{_ADAPTIVE}optimizeSkewsInRebalancePartitions.enabled": BOOLEAN,
    f"{_ADAPTIVE}rebalancePartitionsSmallPartitionFactor": _DECIMAL,
    f"{_ADAPTIVE}skewJoin.enabled": BOOLEAN,
    f"{_ADAPTIVE}skewJoin.skewedPartitionFactor": _DECIMAL,
    f"{_ADAPTIVE}skewJoin.skewedPartitionThresholdInBytes": SPARK_SIZE,
    "spark.sql.autoBroadcastJoinThreshold": SPARK_SIZE,
    "spark.sql.broadcastTimeout": SPARK_DURATION,
    "spark.sql.join.preferSortMergeJoin": BOOLEAN,
    "spark.sql.files.maxPartitionBytes": SPARK_SIZE,
    "spark.sql.files.maxPartitionNum": INTEGER,
    "spark.sql.files.maxRecordsPerFile": INTEGER,
    "spark.sql.files.minPartitionNum": INTEGER,
    "spark.sql.files.openCostInBytes": SPARK_SIZE,
}

# Options of a write: table properties that they override, each with its name in Iceberg's writer.
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
            "write-format", "fanout-enabled", "advisory-partition-size", "compression-codec",
            "compression-level", "compression-strategy",
        )
    },
}  # fmt: skip

# Options of Flink's tables and jobs that are accepted but have no effect.
FLINK = frozenset({
    "auto-compaction", "compaction.file-size", "compaction.parallelism", "format", "partition.default-name",
    "partition.time-extractor.class", "partition.time-extractor.kind",
    "partition.time-extractor.timestamp-formatter", "partition.time-extractor.timestamp-pattern",
    "scan.parallelism", "sink.parallelism", "sink.partition-commit.delay",
    "sink.partition-commit.policy.class", "sink.partition-commit.policy.kind",
    "sink.partition-commit.success-file.name", "sink.partition-commit.trigger",
    "sink.partition-commit.watermark-time-zone", "sink.rolling-policy.check-interval",
    "sink.rolling-policy.file-size", "sink.rolling-policy.rollover-interval",
    "sink.shuffle-by-partition.enable", "source.monitor-interval",
})  # fmt: skip
# Options of Flink that executionConfig accepts without effect.
FLINK_EXECUTION = frozenset({
    "execution.target", "parallelism.default", "pipeline.jars", "pipeline.max-parallelism", "pipeline.name",
    "table.dml-sync", "table.exec.resource.default-parallelism",
})  # fmt: skip

TABLE_OPTIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*NAMES, *FLINK, *_OURS_ALONE), ()),
    STRATEGY: (AUTO, FULL, INCREMENTAL),
    DOUBLES: (EXACT, MERGED),
    LATE_DATA: (REFRESH, REPORT, IGNORE, RECOMPUTE),
    UPSERT: (EQUALITY_DELETE,),
}
"""The options of a materialized table, each with its values if they are a fixed set.

Date-formatters are not listed, because their keys contain column names.
"""
BATCH = ("execution.runtime-mode", "batch")


def check_table_options(options: Mapping[str, str], table: str, clause: str = "WITH") -> tuple[str, ...]:
    """Return warnings about CREATE or SET options without effect; raise RequestInvalid for unknown ones."""
    if options.get(STRATEGY, FULL) not in (AUTO, FULL, INCREMENTAL):
        raise RequestInvalid(
            f"{clause} of {table}: '{STRATEGY}' = '{options[STRATEGY]}' "
            f"is none of '{AUTO}' (apply what changed where that is "
            f"exact and cheaper), '{INCREMENTAL}' (wherever it is exact) and '{FULL}' (compute all rows)."
        )
    if options.get(DOUBLES, EXACT) not in (EXACT, MERGED):
        raise RequestInvalid(
            f"{clause} of {table}: '{DOUBLES}' = '{options[DOUBLES]}' is neither '{EXACT}' (sums of DOUBLE "
            f"and FLOAT are computed again for the keys that changed) nor '{MERGED}' (the sum of appended "
            "rows is added to the one of the table)."
        )
    if options.get(LATE_DATA, REFRESH) not in (REFRESH, REPORT, IGNORE, RECOMPUTE):
        raise RequestInvalid(
            f"{clause} of {table}: '{LATE_DATA}' = '{options[LATE_DATA]}' is none of '{REFRESH}' "
            f"(refreshes on schedule take partitions with changed source rows too), '{RECOMPUTE}' "
            f"(and those in doubt), '{REPORT}' (name them) and '{IGNORE}' (do not look for them)."
        )
    _check_upsert(options, f"{clause} of {table}")
    check_known(options, f"{clause} of {table}")
    return _without_effect(FLINK & options.keys(), table)


def _check_upsert(options: Mapping[str, str], where: str) -> None:
    if options.get(UPSERT, EQUALITY_DELETE) != EQUALITY_DELETE:
        raise RequestInvalid(
            f"{where}: '{UPSERT}' = '{options[UPSERT]}' is not '{EQUALITY_DELETE}' (a "
            "refresh deletes rows by their keys, which readers of the table apply); "
            "leave the option out to have the rows looked up and deleted by the refresh."
        )
    if UPSERT in options and options.get("format-version") == "1":
        raise RequestInvalid(
            f"{where}: '{UPSERT}' needs delete files, which 'format-version' = '1' does not support; use '2'."
        )


def check_known(keys: Iterable[str], where: str) -> None:
    """Raise RequestInvalid for an option that materialized tables do not have."""
    for key in keys:
        if not (is_property(key) or key in FLINK or key in _OURS_ALONE or is_formatter(key)):
            others = {*NAMES, *FLINK, *_OURS_ALONE, f"{FORMATTER_PREFIX}<column>{FORMATTER_SUFFIX}"}
            raise _unknown(key, where, others)


def is_formatter(key: str) -> bool:
    """Return whether the option *key* is the date-formatter of a column."""
    return key.startswith(FORMATTER_PREFIX) and key.endswith(FORMATTER_SUFFIX)


def check_dynamic_options(options: Mapping[str, str], where: str, *others: str) -> tuple[str, ...]:
    """Return warnings about options of RESUME or of a refresh that have no effect.

    Raises RequestInvalid for an unknown option.
    """
    for key, value in options.items():
        if key.startswith(SNAPSHOT_PROPERTY) and not key.removeprefix(SNAPSHOT_PROPERTY).startswith(_OURS):
            continue
        if key not in FLINK and key not in WRITE:
            _check_setting(key, value, where, {*EXECUTION, *WRITE, *FLINK, *others})
    return _without_effect([key for key in options if key in FLINK], where)


def check_execution_config(config: Mapping[str, str], where: str) -> None:
    """Raise RequestInvalid for a setting that refreshes do not accept, or that has an invalid value."""
    for key, value in config.items():
        if key not in FLINK_EXECUTION and (key, value.lower()) != BATCH:
            _check_setting(key, value, where, {*EXECUTION, *FLINK_EXECUTION})


def write_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for Iceberg's writer in *options* of a refresh; later ones take precedence."""
    writer_options = {}
    for key, value in options.items():
        if key.startswith(SNAPSHOT_PROPERTY):
            writer_options[key.removeprefix(_WRITE)] = value
        elif key in WRITE:
            writer_options[WRITE[key]] = value
    return writer_options


def acting(options: Mapping[str, str]) -> dict[str, str]:
    """Return those *options* that have an effect on a refresh."""
    return {key: value for key, value in options.items() if key in EXECUTION or write_options({key: value})}


def execution_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings among the *options* of a refresh."""
    return {key: value for key, value in options.items() if key in EXECUTION}


def _check_setting(key: str, value: str, where: str, known: Collection[str]) -> None:
    if key not in EXECUTION:
        if key.startswith(_SPARK):
            raise RequestInvalid(
                f"{where}: {key} cannot be set for a refresh{_meant(key, known)}; "
                "it accepts settings that change no row, such as spark.sql.shuffle.partitions. "
                f"SET '{key}' before CREATE or ALTER … AS stores it with the table."
            )
        raise _unknown(key, where, known)
    if not EXECUTION[key].accepts(value):
        raise RequestInvalid(f"{where}: {key} = '{value}' cannot be used; expected {EXECUTION[key].name}.")


def _unknown(key: str, where: str, known: Collection[str]) -> RequestInvalid:
    return RequestInvalid(
        f"{where}: unknown option {key}{_meant(key, known) or f'; {_PAGE} lists the known ones'}."
    )


def _meant(key: str, known: Collection[str]) -> str:
    near = suggestion(key, known, likeness=0.6)
    return near and f"; {near}"


def _without_effect(keys: Collection[str], where: str) -> tuple[str, ...]:
    if not keys:
        return ()
    return (f"{where}: {', '.join(sorted(keys))}: accepted, but without effect here.",)
