"""The metric families of /metrics: name, type, labels, and how many series each can have.

Each family is declared once, as data. The instruments, docs/metrics.md and the checks of the alert rules and
the dashboard are made from these declarations. The names follow the conventions of Prometheus: base units,
`_total` for counters, `_timestamp_seconds` for instants.

Two rules hold for all families. An instant is exported as an instant, never as an age, so a scrape computes
nothing, and a series changes only when something happens; a query subtracts it from `time()`. No label has
values that grow with use, such as an error or the id of a run: the number of series is bounded by what
`series` says. A label whose values come from work, such as a reason code, occurs only with the values that
have occurred since the start. A value that does not apply is "", which Prometheus treats as a missing label.

The values of labels are the words of SHOW and of the JSON, such as `SUCCEEDED` or `SOURCES_CHANGED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "freshtable_"
# From an inline refresh to one that takes hours.
WORK_S = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TRANSACTION_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TABLE_LABELS = ("table_catalog", "table_schema", "table_name")
EACH_TABLE = "1 for each table, at most `metrics.max-tables`"


class Kind(StrEnum):
    """The types of metrics that the gateway has."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric family. `buckets` are the upper bounds of a histogram, without +Inf.

    `series` says how many series the family can have; a histogram has 17 samples for each of them.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    series: str = "1"
    buckets: tuple[float, ...] = ()


# ------------------------------------------------------------------------------------------------ the gateway

BUILD = Family(
    name="freshtable_build_info",
    kind=Kind.INFO,
    help="The versions of Freshtable and of Spark.",
    labels=("version", "spark"),
)
STARTED_AT = Family(
    name="freshtable_gateway_start_timestamp_seconds",
    kind=Kind.GAUGE,
    help="When the gateway started.",
)
LEASE_EXPIRY = Family(
    name="freshtable_lease_expiry_timestamp_seconds",
    kind=Kind.GAUGE,
    help="When the gateway's lease of the registry expires unless it is renewed.",
)
LOOP_SUCCESS = Family(
    name="freshtable_background_loop_last_success_timestamp_seconds",
    kind=Kind.GAUGE,
    help="When the last successful pass of a background loop ended; before, when the gateway started.",
    labels=("loop",),
    series="1 for each loop, about 15",
)
LOOP_PERIOD = Family(
    name="freshtable_background_loop_period_seconds",
    kind=Kind.GAUGE,
    help="The pause of a background loop before each pass; 0 if its passes wait for work themselves.",
    labels=("loop",),
    series="1 for each loop, about 15",
)
LOOP_FAILURES = Family(
    name="freshtable_background_loop_failures_total",
    kind=Kind.COUNTER,
    help="The failed passes of a background loop.",
    labels=("loop",),
    series="1 for each loop, about 15",
)
EVENTS_DROPPED = Family(
    name="freshtable_events_dropped_total",
    kind=Kind.COUNTER,
    help="The steps and batches whose events were dropped because listeners were too slow.",
)
NOTICES_PENDING = Family(
    name="freshtable_notices_pending",
    kind=Kind.GAUGE,
    help="The notices that have not been delivered to their receivers yet.",
)

# ----------------------------------------------------------------------------------------------------- tables

TABLES = Family(
    name="freshtable_tables",
    kind=Kind.GAUGE,
    help="The materialized tables, by health and refresh mode.",
    labels=("state", "mode"),
    series="14: 7 states, 2 modes",
)
TABLES_LATE = Family(
    name="freshtable_tables_late",
    kind=Kind.GAUGE,
    help="The tables in state LATE, by fault.",
    labels=("fault",),
    series="4: source, queue, query, schedule",
)
TABLES_SILENT = Family(
    name="freshtable_tables_silent",
    kind=Kind.GAUGE,
    help="The tables that are not late, but whose sources have had no commit for too long (fault writer).",
)
TABLES_UNREADABLE = Family(
    name="freshtable_tables_unreadable",
    kind=Kind.GAUGE,
    help="The tables whose rows in the registry cannot be read; the other families omit them.",
)
TABLES_WITHOUT_SERIES = Family(
    name="freshtable_tables_without_series",
    kind=Kind.GAUGE,
    help="The tables that match metrics.tables but have no series, because of metrics.max-tables.",
)
TABLE_SHOWS = Family(
    name="freshtable_table_shows_timestamp_seconds",
    kind=Kind.GAUGE,
    help="The table shows its ultimate sources as they were at this time.",
    labels=TABLE_LABELS,
    series=EACH_TABLE,
)
TABLE_LATE_AT = Family(
    name="freshtable_table_late_at_timestamp_seconds",
    kind=Kind.GAUGE,
    help="The table is late from this time on, unless it is refreshed before.",
    labels=TABLE_LABELS,
    series=EACH_TABLE,
)
TABLE_SUSPENDED = Family(
    name="freshtable_table_suspended",
    kind=Kind.GAUGE,
    help="1 if the table is suspended, else 0.",
    labels=TABLE_LABELS,
    series=EACH_TABLE,
)
TABLE_FAILING = Family(
    name="freshtable_table_failing",
    kind=Kind.GAUGE,
    help="1 if the last refresh of the table failed, or the gateway suspended it; else there is no sample.",
    labels=TABLE_LABELS,
    series="1 for each such table, at most `metrics.max-tables`",
)

# -------------------------------------------------------------------------------------------------- refreshes

REFRESHES = Family(
    name="freshtable_refreshes_total",
    kind=Kind.COUNTER,
    help="The ended runs, by kind, outcome, strategy and reason.",
    labels=("kind", "outcome", "strategy", "reason_code"),
    series="only the combinations that occur, fewer than 400",
)
REFRESH_DURATION = Family(
    name="freshtable_refresh_duration_seconds",
    kind=Kind.HISTOGRAM,
    help="The time of a SUCCEEDED or SKIPPED refresh, by step; total is from its request to its end.",
    labels=("step", "strategy"),
    series="40: 5 steps, at most 8 strategies",
    buckets=WORK_S,
)
SCHEDULE_DELAY = Family(
    name="freshtable_refresh_schedule_delay_seconds",
    kind=Kind.HISTOGRAM,
    help="The time from a schedule time to the scheduler's request of the refresh.",
    labels=("scheduler",),
    series="1 for the scheduler",
    buckets=WORK_S,
)
REFRESH_ROWS = Family(
    name="freshtable_refresh_rows_total",
    kind=Kind.COUNTER,
    help="The rows that refreshes changed, where the strategy determines their number.",
    labels=("operation",),
    series="3: insert, update, delete",
)
REFRESH_READ_BYTES = Family(
    name="freshtable_refresh_read_bytes_total",
    kind=Kind.COUNTER,
    help="The bytes of the sources that refreshes read.",
)
ATTEMPTS_LOST = Family(
    name="freshtable_refresh_attempts_lost_total",
    kind=Kind.COUNTER,
    help="The attempts at refreshes that ended because the gateway, Spark or Spark's cluster was lost.",
    labels=("cause",),
    series="3: gateway, spark, cluster",
)
REFRESHES_QUEUED = Family(
    name="freshtable_refreshes_queued",
    kind=Kind.GAUGE,
    help="The runs in the queue. Solo runs are retries of single schedule times, and run after all others.",
    labels=("solo",),
    series="2: true, false",
)
REFRESHES_RUNNING = Family(
    name="freshtable_refreshes_running",
    kind=Kind.GAUGE,
    help="The runs that workers are carrying out, including continuous ones.",
)
REFRESHES_WAITING = Family(
    name="freshtable_refreshes_waiting",
    kind=Kind.GAUGE,
    help="The queued runs that wait for a refresh of a table below.",
)
QUEUE_OLDEST = Family(
    name="freshtable_refresh_queue_oldest_timestamp_seconds",
    kind=Kind.GAUGE,
    help="When the oldest run was requested that a free worker could claim; no sample if there is none.",
    labels=("solo",),
    series="2: true, false",
)
BATCHES = Family(
    name="freshtable_batches_total",
    kind=Kind.COUNTER,
    help="The batches that continuous runs published. A batch that fails ends its run.",
    labels=("strategy",),
    series="at most 7: 1 for each strategy",
)
BATCH_DURATION = Family(
    name="freshtable_batch_duration_seconds",
    kind=Kind.HISTOGRAM,
    help="The time of a batch of a continuous run, up to its publish.",
    labels=("strategy",),
    series="at most 7: 1 for each strategy",
    buckets=WORK_S,
)
BATCH_LAG = Family(
    name="freshtable_batch_lag_seconds",
    kind=Kind.HISTOGRAM,
    help="The time from the oldest commit that a batch includes to the end of its publish.",
    labels=("strategy",),
    series="at most 7: 1 for each strategy",
    buckets=WORK_S,
)

# --------------------------------------------------------------------------------------------- streaming jobs

STREAM_JOBS = Family(
    name="freshtable_stream_jobs",
    kind=Kind.GAUGE,
    help="The streaming jobs that have not ended, by status.",
    labels=("status",),
    series="4: CREATED, RUNNING, RESTARTING, SUSPENDED",
)
STREAM_JOBS_ENDED = Family(
    name="freshtable_stream_jobs_ended_total",
    kind=Kind.COUNTER,
    help="The streaming jobs that ended, by status.",
    labels=("status",),
    series="3: FINISHED, CANCELED, FAILED",
)
STREAM_RESTARTS = Family(
    name="freshtable_stream_restarts_total",
    kind=Kind.COUNTER,
    help="The restarts of streaming jobs.",
)
STREAM_BATCH = Family(
    name="freshtable_stream_batch_timestamp_seconds",
    kind=Kind.GAUGE,
    help="When any streaming job last reported another batch.",
)

# ------------------------------------------------------------------------------------ statements and sessions

SESSIONS = Family(
    name="freshtable_sessions",
    kind=Kind.GAUGE,
    help="The open sessions.",
)
OPERATIONS = Family(
    name="freshtable_operations",
    kind=Kind.GAUGE,
    help="The operations of open sessions, by status.",
    labels=("status",),
    series="1 for each status of operations",
)
STATEMENTS = Family(
    name="freshtable_statements_total",
    kind=Kind.COUNTER,
    help="The ended statements, by type and outcome. A query ends when its first rows are ready.",
    labels=("type", "outcome"),
    series="only the combinations that occur: about 90 types, 5 outcomes",
)
STATEMENT_DURATION = Family(
    name="freshtable_statement_duration_seconds",
    kind=Kind.HISTOGRAM,
    help="The time from the submission of a statement to its end.",
    labels=("type",),
    series="only the types that occur, about 90",
    buckets=WORK_S,
)
RESULT_BYTES = Family(
    name="freshtable_result_bytes",
    kind=Kind.GAUGE,
    help="The size of the results that clients have not fetched completely.",
    labels=("place",),
    series="2: memory, disk",
)
RESULT_BYTES_LIMIT = Family(
    name="freshtable_result_bytes_limit",
    kind=Kind.GAUGE,
    help="The limit of freshtable_result_bytes: in memory of all results, on disk of each result.",
    labels=("place",),
    series="2: memory, disk",
)
HTTP_REQUESTS = Family(
    name="freshtable_http_requests_total",
    kind=Kind.COUNTER,
    help="The answered HTTP requests; route is the template of the path, status the class, such as 2xx.",
    labels=("method", "route", "status"),
    series="only the combinations that occur, fewer than 400",
)
HTTP_DURATION = Family(
    name="freshtable_http_request_duration_seconds",
    kind=Kind.HISTOGRAM,
    help="The time to answer an HTTP request.",
    labels=("method", "route"),
    series="only the endpoints that are called, about 100",
    buckets=REQUEST_S,
)

# ---------------------------------------------------------------------------------------------- the registry

REGISTRY_TRANSACTION = Family(
    name="freshtable_registry_transaction_seconds",
    kind=Kind.HISTOGRAM,
    help="How long a transaction held its turn at the registry.",
    buckets=TRANSACTION_S,
)
REGISTRY_WAIT = Family(
    name="freshtable_registry_wait_seconds",
    kind=Kind.HISTOGRAM,
    help="How long a transaction waited for its turn at the registry.",
    buckets=TRANSACTION_S,
)
REGISTRY_ERRORS = Family(
    name="freshtable_registry_errors_total",
    kind=Kind.COUNTER,
    help="The transactions of the registry that failed because of its database.",
)

# ------------------------------------------------------------------------------------------------------ Spark

SPARK_UP = Family(
    name="freshtable_spark_up",
    kind=Kind.GAUGE,
    help="1 if Spark answered when it was last asked, else 0.",
)
SPARK_STARTS = Family(
    name="freshtable_spark_starts_total",
    kind=Kind.COUNTER,
    help="The starts of Spark's JVM.",
)
SPARK_JOBS = Family(
    name="freshtable_spark_active_jobs",
    kind=Kind.GAUGE,
    help="The Spark jobs that are running.",
)
SPARK_TASKS = Family(
    name="freshtable_spark_active_tasks",
    kind=Kind.GAUGE,
    help="The Spark tasks that are running.",
)
SPARK_EXECUTORS = Family(
    name="freshtable_spark_executors",
    kind=Kind.GAUGE,
    help="The executors of Spark; the driver is one if it runs tasks itself.",
)
JVM_MEMORY = Family(
    name="freshtable_jvm_memory_bytes",
    kind=Kind.GAUGE,
    help="The memory that the JVM uses.",
    labels=("area",),
    series="2: heap, nonheap",
)

GROUPS: Mapping[str, tuple[Family, ...]] = {
    "Gateway": (
        BUILD,
        STARTED_AT,
        LEASE_EXPIRY,
        LOOP_SUCCESS,
        LOOP_PERIOD,
        LOOP_FAILURES,
        EVENTS_DROPPED,
        NOTICES_PENDING,
    ),
    "Tables": (
        TABLES,
        TABLES_LATE,
        TABLES_SILENT,
        TABLES_UNREADABLE,
        TABLES_WITHOUT_SERIES,
        TABLE_SHOWS,
        TABLE_LATE_AT,
        TABLE_SUSPENDED,
        TABLE_FAILING,
    ),
    "Refreshes": (
        REFRESHES,
        REFRESH_DURATION,
        SCHEDULE_DELAY,
        REFRESH_ROWS,
        REFRESH_READ_BYTES,
        ATTEMPTS_LOST,
        REFRESHES_QUEUED,
        REFRESHES_RUNNING,
        REFRESHES_WAITING,
        QUEUE_OLDEST,
        BATCHES,
        BATCH_DURATION,
        BATCH_LAG,
    ),
    "Streaming jobs": (STREAM_JOBS, STREAM_JOBS_ENDED, STREAM_RESTARTS, STREAM_BATCH),
    "Statements and sessions": (
        SESSIONS,
        OPERATIONS,
        STATEMENTS,
        STATEMENT_DURATION,
        RESULT_BYTES,
        RESULT_BYTES_LIMIT,
        HTTP_REQUESTS,
        HTTP_DURATION,
    ),
    "Registry": (REGISTRY_TRANSACTION, REGISTRY_WAIT, REGISTRY_ERRORS),
    "Spark": (SPARK_UP, SPARK_STARTS, SPARK_JOBS, SPARK_TASKS, SPARK_EXECUTORS, JVM_MEMORY),
}
FAMILIES = tuple(family for group in GROUPS.values() for family in group)
