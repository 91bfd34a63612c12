"""Flink properties that a session accepts without effect, with their values (docs/sql/properties.md)."""

from __future__ import annotations

from collections.abc import Mapping

from mt_core.base.options import BOOLEAN, FLINK_DURATION, FLINK_SIZE, INTEGER, NUMBER, TEXT, Form, one_of

_OUTPUT_MODE = one_of("ordered", "allow_unordered")
_RETRY = one_of("no_retry", "fixed_delay")
_SHUFFLE = one_of("auto", "none", "force")

_ASYNC = "table.exec.async-"
_CHECKPOINTING = "execution.checkpointing."
_OPTIMIZER = "table.optimizer."
_SINK = "table.exec.sink."
_SKEW = f"{_OPTIMIZER}skewed-join-optimization."
_RUNTIME_FILTER = f"{_OPTIMIZER}runtime-filter."
_HASH_AGG = "table.exec.local-hash-agg.adaptive."

_FORMS: tuple[tuple[Form, tuple[str, ...]], ...] = (
    (FLINK_DURATION, (
        f"{_ASYNC}lookup.timeout", f"{_ASYNC}ml-predict.timeout", f"{_ASYNC}scalar.retry-delay",
        f"{_ASYNC}scalar.timeout", f"{_ASYNC}table.retry-delay", f"{_ASYNC}table.timeout",
        f"{_CHECKPOINTING}min-pause", f"{_CHECKPOINTING}timeout",
        "execution.buffer-timeout.interval", "pipeline.auto-watermark-interval",
        "restart-strategy.fixed-delay.delay", "table.exec.interval-join.min-cleanup-interval",
        "table.exec.mini-batch.allow-latency", "table.exec.source.idle-timeout",
    )),
    (BOOLEAN, (
        f"{_ASYNC}lookup.key-ordered-enabled", f"{_ASYNC}state.enabled", f"{_CHECKPOINTING}incremental",
        f"{_CHECKPOINTING}unaligned.enabled", "execution.attached", "execution.buffer-timeout.enabled",
        "pipeline.object-reuse", "pipeline.operator-chaining.enabled", "sql-client.display.print-time-cost",
        "sql-client.display.show-line-numbers", "sql-client.verbose",
        "table.dynamic-table-options.enabled", "table.exec.deduplicate.insert-update-after-sensitive-enabled",
        "table.exec.deduplicate.mini-batch.compact-changes-enabled", f"{_HASH_AGG}enabled",
        "table.exec.mini-batch.enabled", "table.exec.operator-fusion-codegen.enabled",
        "table.exec.simplify-operator-name-enabled", "table.exec.sort.async-merge-enabled",
        "table.exec.source.cdc-events-duplicate", "table.exec.spill-compression.enabled",
        f"{_OPTIMIZER}distinct-agg.split.enabled", f"{_OPTIMIZER}dynamic-filtering.enabled",
        f"{_OPTIMIZER}incremental-agg-enabled", f"{_OPTIMIZER}join-reorder-enabled",
        f"{_OPTIMIZER}multiple-input-enabled", f"{_OPTIMIZER}reuse-optimize-block-with-digest-enabled",
        f"{_OPTIMIZER}reuse-source-enabled", f"{_OPTIMIZER}reuse-sub-plan-enabled",
        f"{_RUNTIME_FILTER}enabled", f"{_OPTIMIZER}source.report-statistics-enabled",
        f"{_OPTIMIZER}sql2rel.project-merge.enabled", f"{_OPTIMIZER}union-all-as-breakpoint-enabled",
        "table.rtas-ctas.atomicity-enabled",
    )),
    (INTEGER, (
        f"{_ASYNC}lookup.buffer-capacity", f"{_ASYNC}ml-predict.max-concurrent-operations",
        f"{_ASYNC}scalar.max-attempts", f"{_ASYNC}scalar.max-concurrent-operations",
        f"{_ASYNC}table.max-concurrent-operations", f"{_ASYNC}table.max-retries",
        f"{_CHECKPOINTING}max-concurrent-checkpoints", f"{_CHECKPOINTING}num-retained",
        f"{_CHECKPOINTING}tolerable-failed-checkpoints", "parallelism.default", "pipeline.max-parallelism",
        "restart-strategy.fixed-delay.attempts", "sql-client.display.max-column-width",
        "sql-client.execution.max-table-result.rows", "table.display.max-column-width",
        f"{_HASH_AGG}sampling-threshold", "table.exec.mini-batch.size", "table.exec.rank.topn-cache-size",
        "table.exec.resource.default-parallelism",
        f"{_SINK}upsert-materialize-strategy.adaptive.threshold.high",
        f"{_SINK}upsert-materialize-strategy.adaptive.threshold.low", "table.exec.sort.max-num-file-handles",
        "table.generated-code.max-length", f"{_OPTIMIZER}bushy-join-reorder-threshold",
        f"{_OPTIMIZER}distinct-agg.split.bucket-num", f"{_OPTIMIZER}join.broadcast-threshold",
    )),
    (NUMBER, (
        f"{_HASH_AGG}distinct-value-rate-threshold", f"{_RUNTIME_FILTER}min-filter-ratio",
        f"{_SKEW}skewed-factor",
    )),
    (FLINK_SIZE, (
        "table.exec.spill-compression.block-size", f"{_RUNTIME_FILTER}max-build-data-size",
        f"{_RUNTIME_FILTER}min-probe-data-size", f"{_SKEW}skewed-threshold",
    )),
    (_OUTPUT_MODE, (f"{_ASYNC}lookup.output-mode", f"{_ASYNC}ml-predict.output-mode")),
    (_RETRY, (f"{_ASYNC}scalar.retry-strategy", f"{_ASYNC}table.retry-strategy")),
    (_SHUFFLE, (f"{_SINK}keyed-shuffle",)),
    (one_of("legacy", "map", "value", "adaptive"), (f"{_SINK}upsert-materialize-strategy.type",)),
    (one_of("enabled", "disabled"), (f"{_SINK}rowtime-inserter",)),
    (one_of("auto", "one_phase", "two_phase"), (f"{_OPTIMIZER}agg-phase-strategy",)),
    (one_of("auto", "forced", "none"), (f"{_SKEW}strategy",)),
    (one_of("auto", "runtime_only", "none"), (f"{_OPTIMIZER}adaptive-broadcast-join.strategy",)),
    (one_of("try_resolve", "ignore"), (f"{_OPTIMIZER}non-deterministic-update.strategy",)),
    (one_of("exactly_once", "at_least_once"), (f"{_CHECKPOINTING}mode",)),
    (one_of("table", "changelog", "tableau"), ("sql-client.execution.result-mode",)),
    (
        one_of("default", "dark", "light", "chester", "vs2010", "solarized", "obsidian", "geshi"),
        ("sql-client.display.color-schema",),
    ),
    # In Flink these change results, so only the value that matches Freshtable's behavior is accepted.
    (one_of("default"), ("table.sql-dialect",)),
    (one_of("disabled"), ("table.exec.legacy-cast-behaviour",)),
    (one_of("error"), (f"{_SINK}not-null-enforcer",)),
    (one_of("ignore"), (f"{_SINK}type-length-enforcer", f"{_SINK}nested-constraint-enforcer")),
    (one_of("-1"), ("table.exec.sort.default-limit",)),
    (TEXT, (
        "execution.batch-shuffle-mode", "execution.target", "pipeline.classpaths", "pipeline.jars",
        "pipeline.name", "restart-strategy.type", "state.backend.type", "table.exec.disabled-operators",
        "table.exec.uid.format", "table.exec.uid.generation", "table.resources.download-dir",
    )),
)  # fmt: skip
WITHOUT_EFFECT: Mapping[str, Form] = {key: form for form, keys in _FORMS for key in keys}
