"""Settings: every key with its type, default and help.

A setting is declared in exactly one place, as data. Parsing, `-D`, environment variables, docs/settings.md
and the suggestions for misspelled keys are all derived from this table, so they cannot disagree. A setting
that Flink has too has Flink's key and value syntax (`30 min`, `64 mb`), because users bring their
configuration. Freshtable's own keys follow the same style. The help is a sentence for the documentation. It
says what the value means, and explains 0 or the empty text if they are special. Bounds are part of the
declaration; the modules that use several settings together check their combination.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

ENVIRONMENT_PREFIX = "FRESHTABLE_"


class Kind(StrEnum):
    """The types of settings, as named in documentation and messages."""

    TEXT = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    DURATION = "duration"
    SIZE = "size"
    CHOICE = "choice"
    ZONE = "time zone"
    URL = "url"
    SECRET = "secret"
    TOKENS = "list of tokens"
    NAMES = "list of names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting. `minimum` and `maximum` bound integers, and durations in seconds.

    `shown` is the default value as the documentation shows it.
    """

    key: str
    kind: Kind = Kind.TEXT
    default: str = ""
    help: str
    shown: str = ""
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = 2**31 - 1

    @property
    def variable(self) -> str:
        """The environment variable: FRESHTABLE_ and the key in upper case, without `freshtable.`."""
        name = self.key.removeprefix("freshtable.").upper()
        return ENVIRONMENT_PREFIX + name.replace(".", "_").replace("-", "_")

    @property
    def secret(self) -> bool:
        return self.kind in {Kind.URL, Kind.SECRET, Kind.TOKENS}


SETTINGS: tuple[Setting, ...] = (
    Setting(
        key="freshtable.home",
        default="./.freshtable",
        help="Folder of the embedded registry, catalog and warehouse; one gateway at a time uses it.",
    ),
    Setting(
        key="sql-gateway.embedded",
        kind=Kind.BOOLEAN,
        default="false",
        help=(
            "Listen on the UNIX socket `<home>/gateway.sock` instead of address and port, "
            "and end when no `freshtable sql --embedded` uses the gateway, no job and no refresh runs, "
            "and no materialized table is ACTIVATED."
        ),
    ),
    Setting(
        key="sql-gateway.endpoint.rest.address",
        default="127.0.0.1",
        help=(
            "Address the gateway listens on; on any but a loopback address it needs "
            "`sql-gateway.security.tokens`."
        ),
    ),
    Setting(
        key="sql-gateway.endpoint.rest.port",
        kind=Kind.INTEGER,
        default="8083",
        maximum=65535,
        help="Port the gateway listens on; 0 takes any free port.",
    ),
    Setting(
        key="sql-gateway.endpoint.rest.api-versions",
        default="V1,V2,V3,V4",
        help=(
            "API versions that the gateway announces; it serves all. "
            "Clients of Flink 1.17 to 1.20 need `V1,V2` or `V1,V2,V3`."
        ),
    ),
    Setting(
        key="sql-gateway.security.tokens",
        kind=Kind.TOKENS,
        help=(
            "Bearer tokens, separated by commas, one of which every request must carry: `name:role:secret` "
            "with a role of `admin`, `sql`, `refresh` or `read`; a bare secret, which is an admin's; "
            "or `generate`, which writes one to `<home>/token`. Empty: requests need no token."
        ),
        shown="none",
    ),
    Setting(
        key="sql-gateway.security.allowed-hosts",
        kind=Kind.NAMES,
        help=(
            "Host names, separated by commas, that a gateway without tokens accepts in addition to localhost "
            "and the loopback addresses, such as the name of a proxy on the same machine."
        ),
        shown="none",
    ),
    Setting(
        key="sql-gateway.ui.enabled",
        kind=Kind.BOOLEAN,
        default="true",
        help="Whether the gateway serves its page, under the path `/ui/`.",
    ),
    Setting(
        key="sql-gateway.ui.url",
        help=(
            "The URL at which browsers reach the gateway, such as `https://data.example.com/freshtable` if a "
            "proxy serves it under that path. The links from Airflow to the page begin with it, those of the "
            "page with its path. Empty: the address at which Airflow or the browser calls the gateway."
        ),
        shown="none",
    ),
    Setting(
        key="sql-gateway.session.idle-timeout",
        kind=Kind.DURATION,
        default="10 min",
        help=(
            "The gateway closes a session that has sent no request for this long, and cancels its queries, "
            "including running ones. Changes of data and refreshes continue. 0: never."
        ),
    ),
    Setting(
        key="sql-gateway.session.check-interval",
        kind=Kind.DURATION,
        default="1 min",
        help="How often the gateway checks for idle sessions; 0: never.",
    ),
    Setting(
        key="sql-gateway.session.max-num",
        kind=Kind.INTEGER,
        default="10000",
        minimum=1,
        help="How many sessions may be open at a time.",
    ),
    Setting(
        key="sql-gateway.worker.threads.max",
        kind=Kind.INTEGER,
        default="64",
        minimum=1,
        help="How many statements may run at a time.",
    ),
    Setting(
        key="sql-gateway.engine.lost-after",
        kind=Kind.DURATION,
        default="60 s",
        help=(
            "The gateway gives up a Spark cluster that accepts no work for this long, "
            "and restarts Spark until a cluster accepts work; 0: never."
        ),
    ),
    Setting(
        key="sql-gateway.functions.enabled",
        kind=Kind.BOOLEAN,
        default="true",
        help=(
            "Whether functions in Java, Scala and Python can be created and called. "
            "`freshtable gateway --without-functions` sets it to false: none of their code runs, "
            "statements and refreshes that call one fail with that reason, and streaming jobs wait."
        ),
    ),
    Setting(
        key="sql-gateway.engine.allow-unauthenticated",
        kind=Kind.BOOLEAN,
        default="false",
        help=(
            "Let Spark start although its ports require no secret (`spark.authenticate`): "
            "any client that reaches them can run code as the gateway's user."
        ),
    ),
    Setting(
        key="sql-gateway.result.max-memory",
        kind=Kind.SIZE,
        default="256 mb",
        help=(
            "How much of all results together the gateway buffers in memory; "
            "it writes the rest to files in the home folder."
        ),
    ),
    Setting(
        key="sql-gateway.result.max-disk",
        kind=Kind.SIZE,
        default="4 gb",
        help=(
            "How much of one result the gateway buffers in files; "
            "beyond that, its query waits until the client has fetched rows."
        ),
    ),
    Setting(
        key="registry.url",
        kind=Kind.URL,
        shown="`<home>/registry.db`",
        help=(
            "Database of the registry: `postgresql://user:password@host:port/db`; "
            "empty: SQLite in the home folder."
        ),
    ),
    Setting(
        key="catalog.type",
        kind=Kind.CHOICE,
        default="jdbc",
        choices=("jdbc", "rest"),
        help=(
            "What the catalog `lake` is: an Iceberg catalog in a database, or one of an Iceberg REST server."
        ),
    ),
    Setting(
        key="catalog.url",
        kind=Kind.URL,
        shown="`<home>/catalog.db`",
        help=(
            "Database of the catalog `lake` of type `jdbc`: `postgresql://user:password@host:port/db`; "
            "empty: SQLite in the home folder."
        ),
    ),
    Setting(
        key="catalog.uri",
        kind=Kind.URL,
        shown="none",
        help=(
            "URL of the REST server of the catalog `lake` of type `rest`, such as "
            "`https://catalog.example.com/iceberg`."
        ),
    ),
    Setting(
        key="catalog.warehouse",
        shown="`<home>/warehouse`; of type `rest`: the server's default",
        help=(
            "Where the catalog `lake` stores its files: a folder or an object store such as "
            "`s3://bucket/path`. Of type `rest`: the warehouse as its server calls it."
        ),
    ),
    Setting(
        key="materialized-table.refresh-mode.freshness-threshold",
        kind=Kind.DURATION,
        default="30 min",
        help="A freshness shorter than this means CONTINUOUS, any other FULL, unless REFRESH_MODE is given.",
    ),
    Setting(
        key="materialized-table.default-freshness.full",
        kind=Kind.DURATION,
        default="1 h",
        minimum=1,
        help="Freshness of a table with REFRESH_MODE = FULL that is created without FRESHNESS.",
    ),
    Setting(
        key="materialized-table.default-freshness.continuous",
        kind=Kind.DURATION,
        default="3 min",
        minimum=1,
        help="Freshness of any other table that is created without FRESHNESS.",
    ),
    Setting(
        key="materialized-table.initial-refresh",
        kind=Kind.CHOICE,
        default="on-create",
        choices=("on-create", "on-schedule", "none"),
        help=(
            "What fills a new table: CREATE, which waits for it; the first scheduled refresh; or, "
            "with `none`, only refreshes of the partitions of each schedule time, as in Flink. "
            "A failed first refresh is due again at each schedule time until one succeeds."
        ),
    ),
    Setting(
        key="materialized-table.refresh.max-concurrent",
        kind=Kind.INTEGER,
        default="2",
        minimum=1,
        help="How many tables are refreshed at a time.",
    ),
    Setting(
        key="materialized-table.continuous.max-concurrent",
        kind=Kind.INTEGER,
        default="2",
        minimum=1,
        help="How many tables of refresh mode CONTINUOUS are refreshed at a time, in addition to the others.",
    ),
    Setting(
        key="materialized-table.refresh.timeout",
        kind=Kind.DURATION,
        default="0 s",
        help=(
            "How long a refresh may take before the gateway ends it as FAILED; 0: no limit. "
            "A table can have its own: `WITH ('materialized-table.refresh.timeout' = '2 h')`."
        ),
    ),
    Setting(
        key="materialized-table.verify.interval",
        kind=Kind.DURATION,
        default="1 d",
        help=(
            "How often a table to which refreshes apply changes is compared with its query, "
            "in the background; 0: never. A table "
            "can have its own: `WITH ('materialized-table.verify.interval' = '6 h')`."
        ),
    ),
    Setting(
        key="materialized-table.upstream-wait",
        kind=Kind.DURATION,
        help=(
            "How long a scheduled refresh waits, at most, for the scheduled refreshes of the materialized "
            "tables that it reads; 0: it does not wait. "
            "A table can have its own: `WITH ('materialized-table.upstream-wait' = '10 min')`."
        ),
        shown="half the table's freshness, or half the time between the schedule times of its cron",
    ),
    Setting(
        key="materialized-table.refresh.history",
        kind=Kind.DURATION,
        default="30 d",
        help=(
            "How long the ledger retains completed refreshes; "
            "it always retains the newest 20 of each table. 0: forever."
        ),
    ),
    Setting(
        key="materialized-table.catch-up.max-partitions",
        kind=Kind.INTEGER,
        default="366",
        minimum=1,
        help="How many missed partitions one refresh catches up on; later refreshes process the rest.",
    ),
    Setting(
        key="materialized-table.history",
        kind=Kind.DURATION,
        default="7 d",
        help="How long old snapshots of a table are retained.",
    ),
    Setting(
        key="materialized-table.failures.suspend-after",
        kind=Kind.INTEGER,
        default="5",
        minimum=0,
        help=(
            "After how many consecutive schedule times that failed because of the query or its data a table "
            "is suspended; for refresh mode CONTINUOUS, after how many such batches; 0: never."
        ),
    ),
    Setting(
        key="materialized-table.compaction.small-files",
        kind=Kind.INTEGER,
        default="50",
        minimum=0,
        help=(
            "A table with more small files than this (under 16 MB, and not alone in their partition) is "
            "compacted in the background; 0: never for this reason."
        ),
    ),
    Setting(
        key="materialized-table.compaction.delete-files",
        kind=Kind.INTEGER,
        default="20",
        minimum=0,
        help=(
            "A table with more delete files than this is compacted in the background; "
            "0: never for this reason."
        ),
    ),
    Setting(
        key="materialized-table.continuous.history",
        kind=Kind.DURATION,
        default="1 h",
        help="How long old snapshots of a CONTINUOUS table are retained while it is refreshed.",
    ),
    Setting(
        key="materialized-table.iceberg-refresh-state",
        kind=Kind.BOOLEAN,
        default="false",
        help=(
            "Whether each refresh of a whole table writes its sources, with UUID and snapshot, for "
            "[other engines](how-to/read-with-other-engines.md#refresh-state), in the form of Iceberg's "
            "draft of materialized views."
        ),
    ),
    Setting(
        key="sql-gateway.job.history",
        kind=Kind.DURATION,
        default="7 d",
        help=(
            "How long SHOW JOBS lists a completed "
            "INSERT, UPDATE, DELETE, MERGE, CREATE TABLE … AS or statement set; 0: forever."
        ),
    ),
    Setting(
        key="sql-gateway.job.max-concurrent",
        kind=Kind.INTEGER,
        default="50",
        minimum=1,
        help="How many streaming jobs run at a time; further ones wait with status CREATED.",
    ),
    Setting(
        key="job.hooks.webhook.allowed-urls",
        help=(
            "URLs, separated by commas, to which the job status hook `webhook` may post, "
            "including all paths below them; empty: the hook is off."
        ),
        shown="none",
    ),
    Setting(
        key="job.hooks.webhook.secret",
        kind=Kind.SECRET,
        help=(
            "Key of the HMAC-SHA256 with which the hook `webhook` signs its requests; "
            "without it the hook is off."
        ),
        shown="none",
    ),
    Setting(
        key="metrics.tables",
        kind=Kind.NAMES,
        default="*",
        help=(
            "Which tables have [metrics](metrics.md) of their own: patterns of full names, separated by "
            "commas, such as `lake.sales.*`; `*` stands for any text. Empty: none."
        ),
    ),
    Setting(
        key="metrics.max-tables",
        kind=Kind.INTEGER,
        default="1000",
        help=(
            "How many tables have metrics of their own, the oldest first; "
            "`freshtable_tables_without_series` is the number of the others."
        ),
    ),
    Setting(
        key="metrics.public",
        kind=Kind.BOOLEAN,
        default="false",
        help="Whether `GET /metrics` needs no token. It shows the names of tables.",
    ),
    Setting(
        key="table.local-time-zone",
        kind=Kind.ZONE,
        shown="the machine's, or UTC",
        help=(
            "Time zone of sessions, and of the schedule of tables created in them: "
            "an IANA name such as Europe/Berlin."
        ),
    ),
    Setting(
        key="workflow-scheduler.type",
        default="memory",
        help="Which scheduler refreshes FULL tables; its own options are `workflow-scheduler.<type>.*`.",
    ),
    Setting(
        key="execution.runtime-mode",
        kind=Kind.CHOICE,
        default="batch",
        choices=("batch", "streaming"),
        help="The mode that sessions start with and report to clients: how queries and INSERT read tables.",
    ),
    Setting(
        key="execution.checkpointing.interval",
        kind=Kind.DURATION,
        default="1 s",
        help="How often a streaming job reads and commits new rows, at most. Sessions can SET it.",
    ),
    Setting(
        key="execution.checkpointing.dir",
        shown="`<home>/checkpoints`",
        help=(
            "Where streaming jobs store their checkpoints, each in its own folder; "
            "a checkpoint is deleted with its job after `sql-gateway.job.history`. Sessions can SET it."
        ),
    ),
    Setting(
        key="execution.checkpointing.savepoint-dir",
        shown="`<home>/savepoints`",
        help=(
            "Where STOP JOB … WITH SAVEPOINT stores the copy of a checkpoint, which is never deleted. "
            "Sessions can SET it."
        ),
    ),
    Setting(
        key="streaming.on-source-rewrite",
        kind=Kind.CHOICE,
        default="fail",
        choices=("fail", "ignore"),
        help=(
            "What a streaming job does when rows of a table that it reads were changed or removed: "
            "it fails, or it ignores the change. Sessions can SET it."
        ),
    ),
    Setting(
        key="execution.timeout",
        kind=Kind.DURATION,
        default="0 s",
        help=(
            "How long a statement may take before it ends with status TIMEOUT; 0: no limit. "
            "Sessions can SET it."
        ),
    ),
)
BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}


def settings_markdown() -> str:
    """Return the table of all settings for docs/settings.md."""
    lines = ["| key | type | default | environment variable | meaning |", "|---|---|---|---|---|"]
    for setting in SETTINGS:
        kind = f"{setting.kind}: {', '.join(setting.choices)}" if setting.choices else setting.kind
        default = setting.shown or f"`{setting.default}`"
        lines.append(f"| `{setting.key}` | {kind} | {default} | `{setting.variable}` | {setting.help} |")
    return "\n".join(lines) + "\n"
