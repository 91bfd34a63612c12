"""Rows of the registry's tables: converts between facts and rows of columns and a versioned JSON body.

A registry outlives releases in both directions: after a downgrade, an older gateway may find rows that a
newer one wrote. Only values that SQL selects, sorts or sums by are stored in columns. All others are in one
JSON body, so that most new fields need no migration. `_MAPPINGS` describes each kind of fact as data, and the
code below is generic. Three rules keep rows readable. A body with an unknown version or field is refused,
never read in part, because dropping a field and writing the row back would lose a fact. Values that are None,
and fields in `_SPARSE` that are empty, are omitted, because a ledger may have a million runs. If a field is
missing, the fact gets the field's default. A row that cannot be read raises FactUnreadable with its columns,
so that callers can report or skip it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from mt_core.base.versions import check_keys, check_version
from mt_core.errors import FactUnreadable, MtError, RegistryError
from mt_core.model.catalog import CatalogAbilities, CreatedCatalog
from mt_core.model.connector_table import ConnectorTable, GeneratedRows, Watermark
from mt_core.model.function import (
    CreatedFunction,
    FileKind,
    FunctionFile,
    FunctionKind,
    FunctionLanguage,
    PythonDeclaration,
)
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job, JobEvent, JobHook, JobStatus
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.model.partition import DoubtedPartitions, Scope
from mt_core.model.run import Batch, ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.model.stream import StopRequest, StreamDefinition, StreamState
from mt_core.model.table import (
    Intent,
    MaterializedTable,
    RefreshStatus,
    TableDefinition,
    TableIdentifier,
)
from mt_core.tables.registry import Tombstone
from mt_core.workflow.definitions import WorkflowDefinition, shard_of

BODY_VERSION = 1

Row = Mapping[Any, Any]
F = TypeVar("F")

_PLAIN = frozenset({type(None), str, int, float, bool})
_SPARSE = frozenset(
    {
        *("failing", "failed_times", "rest", "alike", "broken", "by_query", "batches", "recent", "waits_for"),
        "steps",
        "continuous_job",
        *("session", "user", "restarts", "hooks", "failures", "drain"),
        *("partition_keys", "spark_name", "query"),
    }
)


def instant_text(instant: datetime) -> str:
    """Return *instant* in UTC with microseconds, as text that sorts chronologically.

    Raises RegistryError for an instant without a time zone.
    """
    if instant.tzinfo is None:
        raise RegistryError(
            f"Instant {instant.isoformat()} has no zone; the registry only stores UTC instants."
        )
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instants_of(stored: Any) -> Any:
    """Parse the string that `instant_text` returned; for a list of strings, return a tuple of instants."""
    if isinstance(stored, str):
        return datetime.fromisoformat(stored)
    return None if stored is None else tuple(map(instants_of, stored))


def row_of(fact: Any) -> dict[str, Any]:
    """Return the row of *fact*, whose class is in `_MAPPINGS`; the row of a run lacks its sequence number."""
    values = {name: _stored(getattr(fact, name)) for name in _NAMES[type(fact)]}
    row = {name: values.pop(name) for name in _MAPPINGS[type(fact)].columns}
    match fact:
        case MaterializedTable():
            row |= values.pop("identifier")
            row["exclusive"] = fact.intent is not None and fact.intent.exclusive
            row["continuous"] = fact.is_watched
        case RefreshRun():
            row["last_point"] = _stored(max(fact.points, default=None))
        case Job():
            row["hooks_due"] = fact.hooks_due
        case _:
            pass
    # Without this, a million runs would consist mostly of None and empty values.
    body = {
        name: value for name, value in values.items() if value is not None and (value or name not in _SPARSE)
    }
    return row | {"body": json.dumps({"version": BODY_VERSION, **body}, sort_keys=True)}


def fact_of(kind: type[F], row: Row) -> F:
    """Return the fact in *row*; raise FactUnreadable if another release wrote the row or it is damaged."""
    columns = {name: value for name, value in row.items() if name != "body"}
    owner = f"{_MAPPINGS[kind].noun} {row[_MAPPINGS[kind].columns[0]]}"
    try:
        return _read(kind, row, owner)
    except MtError as error:
        raise FactUnreadable(error.message, columns=columns) from error
    except (AttributeError, KeyError, TypeError, ValueError) as cause:
        text = (
            f"The registry's row of {owner} cannot be read ({type(cause).__name__}: {cause}). If a newer "
            "release has used the registry, use that release; otherwise restore the registry from a backup."
        )
        raise FactUnreadable(text, columns=columns) from cause


def _read(kind: type[F], row: Row, owner: str) -> F:
    mapping = _MAPPINGS[kind]
    body: dict[str, Any] = json.loads(row["body"])
    check_version(f"The registry's row of {owner}", body, {BODY_VERSION})
    del body["version"]
    if kind is MaterializedTable:
        body["identifier"] = row
    fact: F = _fact(kind, body | {name: row[name] for name in mapping.columns}, owner)
    return fact


def definition_row(definition: WorkflowDefinition) -> dict[str, Any]:
    """Return the row of *definition*; its body contains the version of the definition's own format."""
    return {
        "workflow_id": definition.workflow_id,
        "shard": shard_of(definition.workflow_id),
        "body": json.dumps(definition.to_json(), sort_keys=True),
    }


def definition_of(row: Row) -> WorkflowDefinition:
    """Return the definition in *row*."""
    return WorkflowDefinition.from_json(json.loads(row["body"]))


def _fact(kind: type[Any], values: Mapping[str, Any], owner: str) -> Any:
    check_keys(f"The registry's row of {owner}", values, _NAMES[kind])
    readers = _MAPPINGS[kind].readers
    # Required fields are missing from the body if they are None.
    present = {**_REQUIRED[kind], **values}
    return kind(
        **{name: readers[name](value) if name in readers else value for name, value in present.items()}
    )


def _stored(value: Any) -> Any:
    # A refresh stores a few hundred values, most of them of these types.
    if type(value) in _PLAIN:
        return value
    match value:
        case datetime():
            return instant_text(value)
        case Enum():
            return value.value
        case Scope() | DoubtedPartitions() | TableDefinition() | TableIdentifier() | PythonDeclaration():
            return value.to_json()
        case StreamDefinition():
            return json.dumps(value.to_json(), sort_keys=True)
        case (
            Intent()
            | Batch()
            | JobHook()
            | StreamState()
            | StopRequest()
            | Watermark()
            | GeneratedRows()
            | KafkaTopic()
            | FunctionFile()
            | CatalogAbilities()
        ):
            return {field.name: _stored(getattr(value, field.name)) for field in fields(value)}
        case Mapping():
            return {key: _stored(item) for key, item in value.items()}
        case tuple() | list():
            return [_stored(item) for item in value]
        case _:
            return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mapping:
    """How a kind of fact is stored: *columns* are the fields with a column of their own, the key first.

    All other fields are in the body. *readers* convert stored values.
    """

    noun: str = ""
    columns: tuple[str, ...] = ()
    readers: Mapping[str, Callable[[Any], Any]]


def _declaration(body: Any) -> PythonDeclaration | None:
    """Return the declaration of a Python object, or None if another release wrote it.

    The object can then be inspected again.
    """
    try:
        return PythonDeclaration.from_json(body)
    except ValueError:
        return None


def _events(stored: list[str]) -> tuple[JobEvent, ...]:
    return tuple(map(JobEvent, stored))


_MAPPINGS: dict[type[Any], _Mapping] = {
    MaterializedTable: _Mapping(
        noun="materialized table",
        columns=("table_id", "status", "revision", "claim"),
        readers={
            "identifier": TableIdentifier.from_json,
            "definition": TableDefinition.from_json,
            "doubted": DoubtedPartitions.from_json,
            "status": RefreshStatus,
            "intent": lambda body: _fact(Intent, body, f"a command {body.get('command')}"),
            **dict.fromkeys(
                (
                    "created_at",
                    "status_at",
                    "failed_times",
                    "covered_until",
                    "covered",
                    "failing",
                    "repair_until",
                ),
                instants_of,
            ),
        },
    ),
    Intent: _Mapping(readers=dict.fromkeys(("lease_until", "started_at"), instants_of)),
    Batch: _Mapping(readers={"began_at": instants_of}),
    RefreshRun: _Mapping(
        noun="refresh",
        columns=(
            *("run_id", "table_id", "kind", "status", "attempt", "claim", "requested_at", "request_key"),
            *("schedule_time", "solo", "owner", "lease_until", "waits_until", "covered_by"),
            *("strategy", "rows_inserted", "rows_updated", "rows_deleted", "bytes_read"),
            *("started_at", "finished_at", "reason_code"),
        ),
        readers={
            "kind": RunKind,
            "scope": Scope.from_json,
            "doubted": DoubtedPartitions.from_json,
            "status": RunStatus,
            "vector": tuple,
            "reason_code": lambda code: None if code is None else ReasonCode(code),
            **dict.fromkeys(
                (
                    "requested_at",
                    "schedule_time",
                    "lease_until",
                    "waits_until",
                    "deadline",
                    "started_at",
                    "finished_at",
                ),
                instants_of,
            ),
            **dict.fromkeys(("points", "rest"), instants_of),
            "recent": lambda bodies: tuple(_fact(Batch, body, "a batch") for body in bodies),
        },
    ),
    JobHook: _Mapping(
        readers={"done": _events, "given_up": _events, "retry_at": instants_of},
    ),
    StopRequest: _Mapping(readers={}),
    StreamState: _Mapping(
        readers={
            "start_at": instants_of,
            "stop": lambda body: None if body is None else _fact(StopRequest, body, "a request to stop"),
        },
    ),
    Job: _Mapping(
        noun="job",
        columns=("job_id", "status", "started_at", "finished_at", "revision", "definition"),
        readers={
            "status": JobStatus,
            "definition": lambda text: None if text is None else StreamDefinition.from_json(json.loads(text)),
            "stream": lambda body: (
                None if body is None else _fact(StreamState, body, "the state of a stream")
            ),
            "hooks": lambda bodies: tuple(
                _fact(JobHook, body, f"hook {body.get('name')}") for body in bodies
            ),
            **dict.fromkeys(("started_at", "finished_at"), instants_of),
        },
    ),
    Tombstone: _Mapping(
        noun="tombstone of table",
        columns=("table_id", "dropped_at"),
        readers={"identifier": TableIdentifier.from_json, "dropped_at": instants_of},
    ),
    CreatedCatalog: _Mapping(
        noun="catalog",
        columns=("name",),
        readers={"abilities": lambda body: None if body is None else CatalogAbilities.from_json(body)},
    ),
    Watermark: _Mapping(readers={}),
    GeneratedRows: _Mapping(readers={"items": tuple}),
    KafkaTopic: _Mapping(
        readers=dict.fromkeys(("parsed", "items", "computed", "written", "record", "keys"), tuple)
    ),
    ConnectorTable: _Mapping(
        noun="table",
        columns=("name",),
        readers={
            **dict.fromkeys(("columns", "keys", "partition_keys"), tuple),
            "watermark": lambda body: _fact(Watermark, body, "a watermark"),
            "unbounded": lambda body: _fact(GeneratedRows, body, "generated rows"),
            "bounded": lambda body: _fact(GeneratedRows, body, "generated rows"),
            "topic": lambda body: _fact(KafkaTopic, body, "a Kafka topic"),
        },
    ),
    FunctionFile: _Mapping(readers={"kind": FileKind}),
    CreatedFunction: _Mapping(
        noun="function",
        columns=("name",),
        readers={
            "language": FunctionLanguage,
            "kind": FunctionKind,
            "namespace": tuple,
            "files": lambda bodies: tuple(
                _fact(FunctionFile, body, "a file of a function") for body in bodies
            ),
            "declared": _declaration,
        },
    ),
    GatewayLease: _Mapping(
        noun="gateway", columns=("owner", "lease_until"), readers={"lease_until": instants_of}
    ),
}
_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in _MAPPINGS}
_REQUIRED: dict[type[Any], dict[str, None]] = {
    kind: {field.name: None for field in fields(kind) if field.default is field.default_factory is MISSING}
    for kind in _MAPPINGS
}
