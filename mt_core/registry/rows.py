"""Rows of the registry's tables: facts as columns and versioned JSON bodies, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from mt_core.errors import RegistryError
from mt_core.model.catalog import CreatedCatalog
from mt_core.model.gateway import GatewayLease
from mt_core.model.partition import Scope
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import Intent, MaterializedTable, RefreshStatus, TableDefinition, TableIdentifier
from mt_core.tables.registry import Tombstone
from mt_core.workflow.definitions import WorkflowDefinition, shard_of

BODY_VERSION = 1

Row = Mapping[Any, Any]

_TABLE_COLUMNS = frozenset({"table_id", "identifier", "status", "revision", "claim"})
_SPARSE = frozenset({"failing", "rest", "alike", "broken"})
_PLAIN_RUN_COLUMNS = frozenset({"run_id", "table_id", "attempt", "claim", "request_key", "owner", "covered_by", "solo"})
_GATEWAY_COLUMNS = frozenset({"owner", "lease_until"})
_RUN_COLUMNS = _PLAIN_RUN_COLUMNS | {"kind", "status", "requested_at", "schedule_time", "lease_until"}


def instant_text(instant: datetime) -> str:
    """Return *instant* in UTC with microseconds, as a text that sorts as the instants do; raises RegistryError without a zone."""
    if instant.tzinfo is None:
        raise RegistryError(f"Instant {instant.isoformat()} has no zone; the registry stores instants of UTC only.")
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_of(text: str) -> datetime:
    """Return the instant that `instant_text` wrote."""
    return datetime.fromisoformat(text)


def table_row(table: MaterializedTable) -> dict[str, Any]:
    """Return the row of *table*."""
    return {
        "table_id": table.table_id,
        **table.identifier.to_json(),
        "status": table.status.value,
        "revision": table.revision,
        "claim": table.claim,
        "exclusive": table.intent is not None and table.intent.exclusive,
        "body": _body_text(_body_of(table, _TABLE_COLUMNS)),
    }


def table_of(row: Row) -> MaterializedTable:
    """Return the table of *row*; raises RegistryError for a body of another version."""
    body = _read_body(row["body"], f"materialized table {row['table_id']}")
    intent = body.pop("intent", None)
    for name in ("created_at", "status_at", "covered_until"):
        body[name] = instant_of(body[name])
    body["repair_until"] = _maybe_instant(body.get("repair_until"))
    body["failing"] = _instants(body.get("failing", ()))
    if "covered" in body:
        body["covered"] = tuple((instant_of(first), instant_of(last)) for first, last in body["covered"])
    _check_known(body, MaterializedTable, f"materialized table {row['table_id']}")
    return MaterializedTable(
        **body | {"definition": TableDefinition.from_json(body["definition"])},
        table_id=row["table_id"],
        identifier=TableIdentifier.from_json(row),
        status=RefreshStatus(row["status"]),
        intent=None if intent is None else _intent_of(intent),
        revision=row["revision"],
        claim=row["claim"],
    )


def run_row(run: RefreshRun) -> dict[str, Any]:
    """Return the row of *run*, without its place in the order of requests."""
    return {
        "run_id": run.run_id,
        "table_id": run.table_id,
        "kind": run.kind.value,
        "status": run.status.value,
        "attempt": run.attempt,
        "claim": run.claim,
        "requested_at": instant_text(run.requested_at),
        "request_key": run.request_key,
        "schedule_time": _maybe_text(run.schedule_time),
        "last_point": _maybe_text(max(run.points, default=None)),
        "solo": run.solo,
        "owner": run.owner,
        "lease_until": _maybe_text(run.lease_until),
        "covered_by": run.covered_by,
        "body": _body_text(_body_of(run, _RUN_COLUMNS)),
    }


def run_of(row: Row) -> RefreshRun:
    """Return the run of *row*; raises RegistryError for a body of another version."""
    body = _read_body(row["body"], f"refresh {row['run_id']}")
    body["scope"] = Scope.from_json(body.get("scope"))
    body["points"], body["rest"] = _instants(body.get("points", ())), _instants(body.get("rest", ()))
    body.pop("solo", None)  # a column since migration 0004
    for name in ("started_at", "finished_at", "deadline"):
        body[name] = _maybe_instant(body.get(name))
    if "vector" in body:
        body["vector"] = tuple(body["vector"])
    _check_known(body, RefreshRun, f"refresh {row['run_id']}")
    return RefreshRun(
        **body,
        **{name: row[name] for name in _PLAIN_RUN_COLUMNS},
        kind=RunKind(row["kind"]),
        status=RunStatus(row["status"]),
        requested_at=instant_of(row["requested_at"]),
        schedule_time=_maybe_instant(row["schedule_time"]),
        lease_until=_maybe_instant(row["lease_until"]),
    )


def tombstone_row(tombstone: Tombstone) -> dict[str, Any]:
    """Return the row of *tombstone*."""
    body = {
        "identifier": tombstone.identifier.to_json(),
        "location": tombstone.location,
        "handler": tombstone.handler,
    }
    return {
        "table_id": tombstone.table_id,
        "dropped_at": instant_text(tombstone.dropped_at),
        "body": _body_text(body),
    }


def tombstone_of(row: Row) -> Tombstone:
    """Return the tombstone of *row*; raises RegistryError for a body of another version."""
    body = _read_body(row["body"], f"tombstone of table {row['table_id']}")
    return Tombstone(
        table_id=row["table_id"],
        identifier=TableIdentifier.from_json(body["identifier"]),
        location=body["location"],
        handler=body.get("handler"),
        dropped_at=instant_of(row["dropped_at"]),
    )


def catalog_row(catalog: CreatedCatalog) -> dict[str, Any]:
    """Return the row of *catalog*."""
    return {
        "name": catalog.name,
        "body": _body_text({"options": dict(catalog.options), "comment": catalog.comment}),
    }


def catalog_of(row: Row) -> CreatedCatalog:
    """Return the catalog of *row*; raises RegistryError for a body of another version."""
    body = _read_body(row["body"], f"catalog {row['name']}")
    return CreatedCatalog(name=row["name"], options=body["options"], comment=body.get("comment"))


def gateway_row(lease: GatewayLease) -> dict[str, Any]:
    """Return the row of *lease*."""
    return {
        "owner": lease.owner,
        "lease_until": instant_text(lease.lease_until),
        "body": _body_text(_body_of(lease, _GATEWAY_COLUMNS)),
    }


def gateway_of(row: Row) -> GatewayLease:
    """Return the lease of *row*; raises RegistryError for a body of another version."""
    body = _read_body(row["body"], f"gateway {row['owner']}")
    _check_known(body, GatewayLease, f"gateway {row['owner']}")
    return GatewayLease(**body, owner=row["owner"], lease_until=instant_of(row["lease_until"]))


def definition_row(definition: WorkflowDefinition) -> dict[str, Any]:
    """Return the row of *definition*; its body carries the definition's own version."""
    return {
        "workflow_id": definition.workflow_id,
        "shard": shard_of(definition.workflow_id),
        "body": json.dumps(definition.to_json(), sort_keys=True),
    }


def definition_of(row: Row) -> WorkflowDefinition:
    """Return the definition of *row*."""
    return WorkflowDefinition.from_json(json.loads(row["body"]))


def _intent_of(body: Mapping[str, Any]) -> Intent:
    _check_known(body, Intent, f"a command {body.get('command')}")
    instants = {name: instant_of(body[name]) for name in ("lease_until", "started_at")}
    return Intent(**{**body, **instants})


def _body_of(fact: MaterializedTable | RefreshRun | GatewayLease, columns: frozenset[str]) -> dict[str, Any]:
    return {each.name: _json(getattr(fact, each.name)) for each in fields(fact) if each.name not in columns}


def _json(value: Any) -> Any:
    match value:
        case datetime():
            return instant_text(value)
        case Scope() | TableDefinition():
            return value.to_json()
        case Intent():
            return {each.name: _json(getattr(value, each.name)) for each in fields(value)}
        case Mapping():
            return {key: _json(item) for key, item in value.items()}
        case tuple() | list():
            return [_json(item) for item in value]
        case _:
            return value


def _body_text(body: Mapping[str, Any]) -> str:
    # Without what is None or usually empty, of which most of a million runs would consist.
    present = {key: value for key, value in body.items() if value is not None and (value or key not in _SPARSE)}
    return json.dumps({"version": BODY_VERSION, **present}, sort_keys=True)


def _read_body(text: str, owner: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(text)
    version = body.pop("version", None)
    if version != BODY_VERSION:
        raise RegistryError(
            f"The registry's row of {owner} has version {version}, this release reads version {BODY_VERSION}; "
            "use the release which wrote it."
        )
    return body


def _instants(texts: Iterable[str]) -> tuple[datetime, ...]:
    return tuple(map(instant_of, texts))


def _check_known(body: Mapping[str, Any], fact: type[Any], owner: str) -> None:
    """Raise RegistryError for a body with more than *fact* holds: a newer release wrote it."""
    unknown = sorted(body.keys() - {each.name for each in fields(fact)})
    if unknown:
        raise RegistryError(
            f"The registry's row of {owner} has {', '.join(unknown)}, which this release does not know; use the release "
            "which wrote it, or a newer one."
        )


def _maybe_text(instant: datetime | None) -> str | None:
    return None if instant is None else instant_text(instant)


def _maybe_instant(text: str | None) -> datetime | None:
    return None if text is None else instant_of(text)
