"""The Iceberg table properties that a materialized table can be created with."""

from __future__ import annotations

# Properties are excluded if they change which columns rows have (accept-any-schema, auto-schema-evolution) or
# stage commits (wap).
NAMES = frozenset({
    "commit.manifest-merge.enabled", "commit.manifest.min-count-to-merge",
    "commit.manifest.target-size-bytes", "commit.retry.max-wait-ms", "commit.retry.min-wait-ms",
    "commit.retry.num-retries", "commit.retry.total-timeout-ms", "commit.status-check.max-wait-ms",
    "commit.status-check.min-wait-ms", "commit.status-check.num-retries",
    "commit.status-check.total-timeout-ms", "format-version", "history.expire.max-ref-age-ms",
    "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep", "read.data-planning-mode",
    "read.delete-planning-mode", "read.orc.vectorization.batch-size", "read.orc.vectorization.enabled",
    "read.parquet.vectorization.batch-size", "read.parquet.vectorization.enabled",
    "read.split.adaptive-size.enabled", "read.split.metadata-target-size", "read.split.open-file-cost",
    "read.split.planning-lookback", "read.split.target-size", "write.avro.compression-codec",
    "write.avro.compression-level", "write.data.path", "write.delete.avro.compression-codec",
    "write.delete.avro.compression-level", "write.delete.distribution-mode", "write.delete.format.default",
    "write.delete.granularity", "write.delete.isolation-level", "write.delete.mode",
    "write.delete.orc.block-size-bytes", "write.delete.orc.compression-codec",
    "write.delete.orc.compression-strategy", "write.delete.orc.stripe-size-bytes",
    "write.delete.orc.vectorized.batch-size", "write.delete.parquet.compression-codec",
    "write.delete.parquet.compression-level", "write.delete.parquet.dict-size-bytes",
    "write.delete.parquet.page-row-limit", "write.delete.parquet.page-size-bytes",
    "write.delete.parquet.page-version", "write.delete.parquet.row-group-check-max-record-count",
    "write.delete.parquet.row-group-check-min-record-count", "write.delete.parquet.row-group-size-bytes",
    "write.delete.target-file-size-bytes", "write.distribution-mode", "write.folder-storage.path",
    "write.format.default", "write.location-provider.impl", "write.manifest.compression-codec",
    "write.manifest.compression-level", "write.merge.distribution-mode", "write.merge.isolation-level",
    "write.merge.mode", "write.metadata.compression-codec", "write.metadata.delete-after-commit.enabled",
    "write.metadata.metrics.default", "write.metadata.metrics.max-inferred-column-defaults",
    "write.metadata.path", "write.metadata.previous-versions-max", "write.object-storage.enabled",
    "write.object-storage.partitioned-paths", "write.object-storage.path", "write.orc.block-size-bytes",
    "write.orc.bloom.filter.columns", "write.orc.bloom.filter.fpp", "write.orc.compression-codec",
    "write.orc.compression-strategy", "write.orc.stripe-size-bytes", "write.orc.vectorized.batch-size",
    "write.parquet.bloom-filter-max-bytes", "write.parquet.compression-codec",
    "write.parquet.compression-level", "write.parquet.dict-size-bytes", "write.parquet.page-row-limit",
    "write.parquet.page-size-bytes", "write.parquet.page-version",
    "write.parquet.row-group-check-max-record-count", "write.parquet.row-group-check-min-record-count",
    "write.parquet.row-group-size-bytes", "write.parquet.shred-variants",
    "write.parquet.variant-inference-buffer-size", "write.spark.advisory-partition-size-bytes",
    "write.spark.fanout.enabled", "write.summary.partition-limit", "write.target-file-size-bytes",
    "write.update.distribution-mode", "write.update.isolation-level", "write.update.mode",
    "write.upsert.enabled",
})  # fmt: skip
BY_COLUMN = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
)
"""Prefixes of properties whose names end with a column name."""


def is_property(key: str) -> bool:
    """Return whether *key* is one of these properties."""
    return key in NAMES or (key.startswith(BY_COLUMN) and key not in BY_COLUMN)
