"""Writes the pages of docs/ that are generated from the code: `python docs/build.py`, or `make docs`.

A test compares the committed pages with what this module makes of the code, so they are never out of date.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, cast

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import mt_core  # noqa: E402
from docs.public_names import public_names_page  # noqa: E402
from mt_core.config import settings_markdown  # noqa: E402
from mt_core.errors import MtError  # noqa: E402
from mt_core.gateway.application import documents  # noqa: E402
from mt_core.gateway.services import GatewayServices, ProductInfo  # noqa: E402
from mt_core.metrics import families  # noqa: E402
from mt_core.model import run, table  # noqa: E402
from mt_core.sessions.operations import operation  # noqa: E402
from mt_core.tables.overview.lateness import State  # noqa: E402

S = TypeVar("S", bound=StrEnum)
NOTICE = "<!-- Written by docs/build.py from the code; change the code and run `make docs`. -->\n"
BUNDLED_SCHEDULERS = ("memory", "airflow")
# Modules that do something when they are imported: Alembic runs these itself.
NOT_IMPORTED = ("mt_core.registry.migrations", "mt_core.__main__")

HEALTH: Mapping[State, str] = {
    State.SUSPENDED: "No scheduled refresh runs; *status by* says who suspended it, or after which failures.",
    State.LATE: "The source data in the table is older than its freshness allows; *late by* names the cause.",
    State.FAILING: "The last refresh, or a schedule time that is retried separately, has FAILED.",
    State.DOUBTED: "Partitions are [in doubt](concepts.md#late-rows).",
    State.SOON: "The table will be LATE before a refresh that begins now can end.",
    State.OK: "None of these.",
    State.INITIALIZING: "No refresh has written rows yet; the table can be LATE or FAILING instead.",
}

WAYS_OUT: Mapping[str, str] = {
    "INTERNAL": "Please report the details, which are in the gateway's log (`<home>/logs/gateway.log`).",
    "CONFIG_INVALID": "Correct the setting that the message names; [settings](settings.md) lists them all.",
    "HOME_LOCKED": "Use the gateway that the message names, stop it, or choose another folder with `--home`.",
    "REGISTRY_IN_USE": "Use the gateway that the message names, stop it, or set another `registry.url`.",
    "PORT_IN_USE": (
        "Stop what listens there, or choose another `sql-gateway.endpoint.rest.port` (0: any free one)."
    ),
    "JAVA_MISSING": "Install a JDK 17 or newer and set `JAVA_HOME`, or put `java` on the `PATH`.",
    "PLUGIN_INVALID": (
        "Install the plug-in that `workflow-scheduler.type` names, or uninstall one of the two that claim it."
    ),
    "SQL_SYNTAX": (
        "Correct the text at the line and column of the message; [SQL](sql/README.md) has the grammar."
    ),
    "DEFINITION_INVALID": "Correct the column, option, interval or partition that the message names.",
    "CATALOG_UNSUPPORTED": (
        "Create the table in a catalog that can hold it, such as `lake`; its sources can be in any catalog."
    ),
    "REQUEST_INVALID": "Correct the field or parameter that the message names.",
    "UNSUPPORTED": "Do as the message says, such as adding `REFRESH_MODE = FULL`.",
    "PLAN_INVALID": "Correct the place of the file that the message names, or compile the plan again.",
    "PLAN_NOT_FOUND": (
        "Check the path; a relative one begins in the folder of the session, which ends with it."
    ),
    "PLAN_EXISTS": "Delete the file, write `IF NOT EXISTS`, or `SET 'table.plan.force-recompile' = 'true'`.",
    "TABLE_NOT_FOUND": "Check the name; `SHOW MATERIALIZED TABLES IN namespace` lists all.",
    "TABLE_PROTECTED": (
        "Use the statement that the message names: only its own statements change a materialized table."
    ),
    "NOT_MATERIALIZED_TABLE": "Use the statement for ordinary tables and views.",
    "TABLE_EXISTS": (
        "Choose another name, DROP the object that has it, or use `CREATE OR ALTER` for a materialized table."
    ),
    "TABLE_NOT_CREATED": "Correct what the message names and repeat CREATE: it kept nothing.",
    "TABLE_GONE": "Discard the request: it was for a table that was dropped. Schedulers must not retry it.",
    "TABLE_INITIALIZING": "Repeat the request after the seconds of `Retry-After`, or DROP the table.",
    "SCHEDULER_NOT_USED": (
        "Set `workflow-scheduler.type` to that scheduler, or remove what requests them "
        "(in Airflow, the bundle)."
    ),
    "TABLE_BUSY": (
        "Repeat the statement when the command that the message names has ended; DROP never has to wait."
    ),
    "ILLEGAL_STATUS": (
        "Look at the status with `DESCRIBE EXTENDED`; "
        "the [tables of statuses](statuses.md) say what works when."
    ),
    "REQUEST_KEY_REUSED": "Send a different key with each request, such as the table with the schedule time.",
    "INCOMPARABLE": "Do as the message says: refresh the table, or leave out what it names.",
    "REFRESH_FAILED": (
        "Read the reason in the message or in `SHOW REFRESHES`, correct it, and `ALTER … REFRESH`."
    ),
    "QUERY_BROKEN": (
        "Restore the column or table that the message names, or change the query with `ALTER … AS`."
    ),
    "QUERY_FAILED": "Correct the query at the position that the message names.",
    "CANCELED": "None is needed: a client requested it. Repeat the statement if that was a mistake.",
    "STATEMENT_TIMED_OUT": (
        "Give the statement more time: its `executionTimeout`, or `SET 'execution.timeout'` in the session."
    ),
    "CLUSTER_LOST": (
        "Make sure that the cluster of `spark.master` runs and has free cores; "
        "accepted refreshes then continue."
    ),
    "ENGINE_UNAVAILABLE": (
        "Repeat the request after the seconds of `Retry-After`; accepted refreshes continue when Spark runs."
    ),
    "ENGINE_FAILED": (
        "Read the cause in the message and in `<home>/logs/spark.log`; a refresh can be repeated."
    ),
    "STORAGE_MISSING": (
        "`ALTER MATERIALIZED TABLE … RESUME` recreates the storage and fills it; or DROP the table."
    ),
    "WORKFLOW_FAILED": (
        "Make sure that the scheduler can be reached and allows the operation, then repeat the statement."
    ),
    "DISK_FULL": "Make room on the disk of the registry; the gateway then goes on by itself.",
    "REGISTRY_FAILED": (
        "Make sure that the registry's database can be reached and has room, then repeat the statement."
    ),
    "SESSION_NOT_FOUND": (
        "Open a new session: this one was closed, or expired; the refreshes that it started continue."
    ),
    "SESSION_LIMIT": "Close sessions that are not used, or raise `sql-gateway.session.max-num`.",
    "GATEWAY_BUSY": "Repeat the request after the seconds of `Retry-After`, or send it in smaller parts.",
    "OPERATION_NOT_FOUND": "Check the handle: the operation was closed, or belongs to another session.",
    "GATEWAY_FAILED": (
        "Make sure that the gateway runs at the URL of the message; "
        "`freshtable sql --gateway URL` names another."
    ),
    "SESSION_LOST": (
        "Repeat the statements that the message names. "
        "A client raises this error when it has opened a new session."
    ),
}


def pages() -> dict[Path, str]:
    """Return every generated page with its text."""
    docs, documents = ROOT / "docs", openapi_documents()
    return {
        docs / "settings.md": settings_page(),
        docs / "errors.md": errors_page(),
        docs / "statuses.md": statuses_page(),
        docs / "metrics.md": metrics_page(),
        docs / "public-names.md": NOTICE
        + public_names_page(documents, [key for key, _, _ in scheduler_options()]),
        **{
            docs / "openapi" / f"{name}.json": json.dumps(document, indent=2, ensure_ascii=False) + "\n"
            for name, document in documents.items()
        },
    }


# ---------------------------------------------------------------------------------------------------- OpenAPI


def openapi_documents() -> Mapping[str, dict[str, Any]]:
    """Return the document that the gateway serves for each API, by its prefix with dashes between
    the parts.
    """
    nothing = cast("Any", None)
    services = GatewayServices(
        sessions=nothing,
        executor=nothing,
        jobs=nothing,
        hooks=nothing,
        names=nothing,
        operations=nothing,
        runs=nothing,
        facts=nothing,
        info=ProductInfo(version=mt_core.__version__),
    )
    return {
        name.strip("/").replace("/", "-"): document for name, document in documents(services).items() if name
    }


# --------------------------------------------------------------------------------------------------- settings


def settings_page() -> str:
    """Return docs/settings.md."""
    rows = "".join(f"| `{key}` | {default} | {meaning} |\n" for key, default, meaning in scheduler_options())
    return f"""{NOTICE}# Settings

The gateway works without any. It reads, and each overrides those before it: the default, a YAML file
(`freshtable gateway -c FILE`, flat or nested keys), the environment, `-D key=value`, and `--home` for
`freshtable.home`. It refuses an unknown key and suggests the nearest one. Secrets print as `***` everywhere.

{settings_markdown()}
The gateway passes keys that begin with `spark.` to Spark unchanged. Keys that begin with `catalog.options.`
are options of the catalog `lake`, whatever its type: the gateway passes the rest of the key to Iceberg, for
example `catalog.options.s3.endpoint`, or `catalog.options.credential` of a REST server. Both kinds of keys
are read from the file and `-D`, not from the environment.

Durations are written as `500 ms`, `10 s`, `30 min`, `1 h` or `7 d`, sizes as `64 mb`, `2 gb` or a number of
bytes.

The variable `FRESHTABLE_SPARK_JARS` names the folder of the jars that the gateway downloads, for Spark and
for the [page](how-to/run-in-production.md#jars-of-the-page) (default: `freshtable/jars` in
`$XDG_CACHE_HOME`, else in `~/.cache`). For `freshtable sql`, `FRESHTABLE_GATEWAY` is the URL of the gateway
and `FRESHTABLE_TOKEN` the bearer token.

## Options of schedulers

A workflow scheduler declares its own options, `workflow-scheduler.<type>.<key>`.

| key | default | meaning |
|---|---|---|
{rows}"""


def scheduler_options() -> Iterator[tuple[str, str, str]]:
    """Yield the key of each option of the bundled schedulers, its default, and what it means."""
    for identifier in BUNDLED_SCHEDULERS:
        [scheduler] = importlib.import_module(f"scheduler_plugins.{identifier}").mt_workflow_schedulers()
        for option in scheduler.options:
            default = (
                "must be set" if option.default is None else f"`{option.default}`" if option.default else ""
            )
            yield f"workflow-scheduler.{identifier}.{option.key}", default, option.help


# ----------------------------------------------------------------------------------------------------- errors


def error_classes() -> list[type[MtError]]:
    """Return MtError and every subclass of it in any module of ours that a user can meet,
    parents before children.
    """
    for module in pkgutil.walk_packages(mt_core.__path__, "mt_core."):
        if not module.name.startswith(NOT_IMPORTED):
            importlib.import_module(module.name)
    return [cls for cls in _family(MtError) if not cls.internal]


def _family(parent: type[MtError]) -> Iterator[type[MtError]]:
    yield parent
    # Those of errors.py are in its order, the others in an order that does not depend on imports.
    for child in sorted(parent.__subclasses__(), key=_place):
        if child.__module__.startswith("mt_core."):
            yield from _family(child)


def _place(cls: type[MtError]) -> tuple[str, str]:
    return ("", "") if cls.__module__ == MtError.__module__ else (cls.__module__, cls.__name__)


def errors_page() -> str:
    """Return docs/errors.md."""
    rows = "".join(_error_row(cls) for cls in error_classes())
    return f"""{NOTICE}# Errors

On the command line an error is a message on stderr, with exit code 1. It says what is wrong, on which object,
and the way out:

```
$ freshtable sql -e "SHOW MATERIALIZED TABLES IN nowhere"
Error: Statement 1 (SHOW MATERIALIZED TABLES IN nowhere) failed: Namespace lake.nowhere does not exist;
SHOW DATABASES IN lake lists the existing ones.
```

Programs read the code of an error, which the gateway's answers have in the header `Freshtable-Error`. *HTTP
status* is the status of the refresh endpoint's answers; the other endpoints answer as Flink's gateway does:
400 for a parameter that cannot be used, 500 for any other error, with its text in `errors` (see
[REST](rest.md)).

| code | HTTP status | meaning | way out |
|---|---|---|---|
{rows}
Four more codes come from the HTTP layer alone: `UNAUTHORIZED` (401: the bearer token is missing or wrong),
`FORBIDDEN` (403: the role of the token does not allow it, or the request comes from a web page of another
site or by a name that is not this machine's), `NOT_FOUND` (404: no such endpoint) and `REQUEST_TIMEOUT` (408:
the body stopped arriving). `COMMIT_CONFLICT`, `COMMIT_UNKNOWN`, `SOURCES_CHANGED` and `REVISION_CONFLICT` are
signals inside the gateway, which then reads the facts again and retries; only the log shows them.
"""


def _error_row(cls: type[MtError]) -> str:
    summary = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
    meaning = "A fault of the gateway itself." if cls is MtError else summary
    return f"| `{cls.code}` | {cls.http_status} | {meaning} | {WAYS_OUT[cls.code]} |\n"


# ---------------------------------------------------------------------------------------------------- metrics


def metrics_page() -> str:
    """Return docs/metrics.md."""
    groups = "".join(f"## {title}\n\n{_families(group)}\n" for title, group in families.GROUPS.items())
    buckets = "".join(
        f"| {title} | {', '.join(f'{bound:g}' for bound in bounds)} |\n"
        for title, bounds in _buckets().items()
    )
    return f"""{NOTICE}# Metrics

`GET /metrics` returns the metrics of the gateway, its tables and its refreshes, for Prometheus and for all
systems that read its format. The package for it is the extra `metrics` (`pip install '.[metrics]'` in a
checkout, or `pip install '<path of the wheel>[metrics]'`); without it the answer is 404. If the gateway has
tokens, the request needs one with the role `read`, `sql` or `admin`, unless the
[setting](settings.md) `metrics.public` is true. [Watch with Prometheus and
Grafana](how-to/watch-with-prometheus.md) has alert rules, what to do about each alert, and a dashboard.

```yaml
# prometheus.yml
scrape_configs:
  - job_name: freshtable
    authorization: {{credentials_file: /etc/prometheus/freshtable-token}}
    static_configs: [{{targets: ["gateway.example.com:8083"]}}]
```

The header `Accept` selects the format: text 0.0.4, or OpenMetrics 1.0.0, in which the names of counters and
infos in comment lines have no suffix. The gateway answers from memory: a scrape does not read the registry,
and calls neither Spark nor the scheduler. Figures of the queue are up to 5 seconds old, those of Spark up to
15. Counters begin at 0 when the gateway starts. They count what the ledger records, each run once.

Instants are in seconds since 1970. The age of an instant is `time()` minus its metric. A table was late when
it was scraped if

```
freshtable_table_late_at_timestamp_seconds < timestamp(freshtable_table_late_at_timestamp_seconds)
```

There is no sample where there is no such instant: a table that has never been refreshed shows no time, and a
table that is suspended, or that a streaming job maintains, is never late.

The number of series has a limit, which the column *series* has. Tables have series of their own if their
names match `metrics.tables`. If there are more than `metrics.max-tables`, the oldest tables have series, so a
new table takes none from another; `freshtable_tables_without_series` is the number of the others. The
families without a table label include all tables. They have no samples until the gateway has read the tables,
which takes about ten seconds for 10,000. A label has the words of `SHOW` and of the [JSON](rest.md#facts),
such as [health](statuses.md#health) in `state`, and is empty if it does not apply.

{groups}## Buckets

The upper bounds of histograms, in seconds; each has the bucket `+Inf` as well.

| histograms | bounds |
|---|---|
{buckets}"""


def _families(group: Iterable[families.Family]) -> str:
    lines = ["| name | type | labels | series | meaning |", "|---|---|---|---|---|"]
    for family in group:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.name}` | {family.kind} | {labels} | {family.series} | {family.help} |")
    return "\n".join(lines) + "\n"


def _buckets() -> Mapping[str, tuple[float, ...]]:
    """Return the bounds by the names of the histograms that have them."""
    histograms: dict[tuple[float, ...], list[str]] = {}
    for family in families.FAMILIES:
        if family.buckets:
            histograms.setdefault(family.buckets, []).append(f"`{family.name}`")
    return {", ".join(names): bounds for bounds, names in histograms.items()}


# --------------------------------------------------------------------------------------------------- statuses


def statuses_page() -> str:
    """Return docs/statuses.md."""
    return f"""{NOTICE}# Statuses

## Materialized tables

`SHOW MATERIALIZED TABLES` shows these statuses. DROP works in each of them.

{_transitions(table.TRANSITIONS)}
## Health

The column *health* of `SHOW MATERIALIZED TABLES`, and `state` in the [JSON](rest.md#facts), is one word: the
first of this list that applies.

{_health()}
## Refresh runs

`SHOW REFRESHES` shows these statuses. A RUNNING run returns to QUEUED when its process or Spark is lost.

{_transitions(run.TRANSITIONS)}
## Operations

`GET …/operations/{{operation_handle}}/status` returns these statuses.

{_transitions(operation.TRANSITIONS)}
## Which statement works in which status

*yes*: the statement succeeds. *busy*: it waits up to 5 seconds for the other command, then fails with
`TABLE_BUSY`. *soon*: it fails with `TABLE_INITIALIZING`. *no*: it fails with `ILLEGAL_STATUS`, because the
table has that status already. *lost*: it fails with `STORAGE_MISSING`. *taken*: it fails with `TABLE_EXISTS`.
A statement that fails changes nothing.

{_outcomes()}
A periodic refresh of a SUSPENDED table succeeds: the ledger records it as SKIPPED, "suspended".
"""


def _health() -> str:
    return "\n".join(["| health | meaning |", "|---|---|", *(f"| {s} | {HEALTH[s]} |" for s in State)]) + "\n"


def _transitions(allowed: Mapping[S, frozenset[S]]) -> str:
    lines = ["| from | to |", "|---|---|"]
    for status, targets in allowed.items():
        following = ", ".join(target for target in type(status) if target in targets)
        lines.append(f"| {status} | {following or 'none (final)'} |")
    return "\n".join(lines) + "\n"


def _outcomes() -> str:
    from tests.unit.tables.test_total import EXPECTED, STATES

    chosen = {
        "initializing": "INITIALIZING",
        "activated": "ACTIVATED",
        "suspended": "SUSPENDED",
        "alter_under_way": "another command in progress",
        "running": "a refresh RUNNING",
        "without_workflow": "workflow removed",
        "without_storage": "storage removed",
    }
    titles = {
        "periodic": "periodic refresh (REST)",
        "manual": "manual refresh (REST)",
        "ALTER AS": "ALTER … AS",
    }
    columns = [state.__name__ for state in STATES]
    lines = ["| statement | " + " | ".join(chosen.values()) + " |", "|---" * (len(chosen) + 1) + "|"]
    for statement, outcomes in EXPECTED.items():
        words = (_outcome_word(outcomes[columns.index(name)]) for name in chosen)
        lines.append(f"| {titles.get(statement, statement)} | " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def _outcome_word(outcome: type[MtError] | None) -> str:
    if outcome is None:
        return "yes"
    return {
        "TABLE_BUSY": "busy",
        "TABLE_INITIALIZING": "soon",
        "ILLEGAL_STATUS": "no",
        "STORAGE_MISSING": "lost",
        "TABLE_EXISTS": "taken",
    }[outcome.code]


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
