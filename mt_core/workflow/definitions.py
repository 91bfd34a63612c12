"""Workflow definitions: what a scheduler needs to run, stored in the gateway's registry."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from typing import Any

from mt_core.errors import WorkflowError
from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.workflow.operations import CreatePeriodicRefreshWorkflow, Schedule

DEFINITION_VERSION, CRON_DEFINITION_VERSION = 1, 2
SHARDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition(CreatePeriodicRefreshWorkflow):
    """A workflow as its scheduler must run it: as created, with the changes of all later operations.

    `token` is the token of the last operation. `name` is the scheduler's name of the workflow if it differs
    from the id.
    """

    name: str = ""

    @classmethod
    def of(cls, workflow: CreatePeriodicRefreshWorkflow, *, name: str = "") -> WorkflowDefinition:
        """Return the definition of a new workflow, which has *name* in its scheduler."""
        facts = {each.name: getattr(workflow, each.name) for each in fields(CreatePeriodicRefreshWorkflow)}
        return cls(**facts, name=name)

    def check_token(self, token: int, verb: str) -> None:
        """Raise WorkflowError ("cannot be *verb*") if *token* is older than that of the last change."""
        if token < self.token:
            raise WorkflowError(
                f"Refresh workflow {self.workflow_id} ({self.identifier}) cannot be {verb}: outdated "
                f"operation, its token {token} is older than {self.token}, that of the last change; "
                "read the table's status and decide again."
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "workflow_id": self.workflow_id,
            "identifier": self.identifier,
            "description": self.description,
            **_cadence_json(self.schedule),
            "zone": self.schedule.zone,
            "since": self.schedule.since.isoformat(),
            "paused": self.paused,
            "init_config": dict(self.init_config),
            "execution_config": dict(self.execution_config),
            "dynamic_options": dict(self.dynamic_options),
            "token": self.token,
            **({"name": self.name} if self.name else {}),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> WorkflowDefinition:
        schedule = Schedule(
            freshness=Freshness(**body["freshness"]) if body["freshness"] else None,
            cron=Cron(body["cron"]) if body.get("cron") else None,
            zone=body["zone"],
            since=datetime.fromisoformat(body["since"]),
        )
        return cls(
            workflow_id=body["workflow_id"],
            identifier=body["identifier"],
            description=body["description"],
            schedule=schedule,
            paused=body["paused"],
            init_config=body["init_config"],
            execution_config=body["execution_config"],
            dynamic_options=body["dynamic_options"],
            token=body["token"],
            name=body.get("name", ""),
        )


def _cadence_json(schedule: Schedule) -> dict[str, Any]:
    freshness = schedule.freshness
    if freshness is None:
        return {
            "version": CRON_DEFINITION_VERSION,
            "freshness": None,
            "cron": None if schedule.cron is None else schedule.cron.expression,
        }
    return {"version": DEFINITION_VERSION, "freshness": {"amount": freshness.amount, "unit": freshness.unit}}


def shard_of(workflow_id: str) -> int:
    """Return the shard of a workflow, 0 to SHARDS - 1."""
    return sha256(workflow_id.encode()).digest()[0] % SHARDS


def etag_of(definitions: Iterable[WorkflowDefinition]) -> str:
    """Return a string that changes whenever one of *definitions* changes, whatever their order."""
    bodies = sorted(json.dumps(definition.to_json(), sort_keys=True) for definition in definitions)
    return sha256("\n".join(bodies).encode()).hexdigest()[:32]


class DefinitionStore(ABC):
    """The stored definitions; each method is one transaction and thread-safe."""

    @abstractmethod
    def put(self, definition: WorkflowDefinition) -> None:
        """Store *definition* under its workflow id, replacing any older definition."""

    @abstractmethod
    def get(self, workflow_id: str) -> WorkflowDefinition | None:
        """Return the definition, or None if it does not exist."""

    @abstractmethod
    def delete(self, workflow_id: str) -> None:
        """Delete the definition if it exists."""

    @abstractmethod
    def all(self) -> list[WorkflowDefinition]:
        """Return all definitions, ordered by workflow id."""

    @abstractmethod
    def latest_schedule_times(self) -> Mapping[str, datetime]:
        """Return for each workflow the latest schedule time that a run in the ledger covers or will cover.

        A workflow without any such run is absent. A run does not count if it was skipped because its table
        was suspended, or if its schedule time is in the future. Neither does a run that was requested later
        than now because the clock was set back since.
        """

    def shard(self, number: int) -> tuple[str, list[WorkflowDefinition]]:
        """Return the ETag and the definitions of one shard."""
        definitions = [definition for definition in self.all() if shard_of(definition.workflow_id) == number]
        return etag_of(definitions), definitions
