"""Workflow definitions served to an external scheduler, with the statement that created each table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mt_core.base.secrets import without_passwords
from mt_core.errors import RequestInvalid, TableNotFound
from mt_core.model.table import MaterializedTable
from mt_core.tables.definition.show_create import show_create
from mt_core.tables.pages import PAGE
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.workflow.definitions import SHARDS, WorkflowDefinition
from mt_core.workflow.publishing import PublishedShard, published_shard, workflow_json


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered:
    """A cached shard: schedulers read each shard every few seconds, and shards rarely change."""

    version: str
    details: str
    shard: PublishedShard


@dataclass(frozen=True, slots=True)
class ServedWorkflows:
    """Serves the published workflow definitions of the current scheduler. Thread-safe."""

    registry: Registry
    scheduler: str
    rendered: dict[int, _Rendered] = field(default_factory=dict)

    def shard(self, number: int, details: str) -> PublishedShard:
        """Return shard *number*; the URL of each workflow is *details* followed by the workflow's id.

        A shard that has not changed since the last call is not rendered again.

        Raises RequestInvalid for an unknown shard number.
        """
        if not 0 <= number < SHARDS:
            raise RequestInvalid(f"Shard {number} does not exist; shards are numbered 0 to {SHARDS - 1}.")
        # The version is read first, so that a concurrent change is rendered by the next call.
        version = in_transaction(self.registry, lambda tx: tx.workflows.shard_version(number))
        last = self.rendered.get(number)
        if last is not None and (last.version, last.details) == (version, details):
            return last.shard
        state, definitions = self.registry.definitions.shard(number)
        shard = published_shard(self.scheduler, number, self._render(definitions, details), state=state)
        self.rendered[number] = _Rendered(version=version, details=details, shard=shard)
        return shard

    def workflow(self, workflow_id: str, details: str) -> dict[str, Any]:
        """Return one workflow; raise TableNotFound if it does not exist."""
        definition = self.registry.definitions.get(workflow_id)
        if definition is None or not definition.name:
            raise TableNotFound(
                f"Scheduler {self.scheduler} has no workflow {workflow_id}; "
                "its table was dropped, or never existed."
            )
        return self._render([definition], details)[0]

    def _render(self, definitions: Iterable[WorkflowDefinition], details: str) -> list[dict[str, Any]]:
        named = [definition for definition in definitions if definition.name]
        bodies = []
        for first in range(0, len(named), PAGE):
            page = named[first : first + PAGE]
            for definition, table in zip(
                page, in_transaction(self.registry, partial(_tables, page)), strict=True
            ):
                # The scheduler only shows the statement, so passwords in the query are masked too.
                text = without_passwords(show_create(table, or_alter=False)) if table is not None else ""
                bodies.append(
                    workflow_json(definition, text=text, details_url=f"{details}/{definition.workflow_id}")
                )
        return bodies


def _tables(definitions: Iterable[WorkflowDefinition], tx: Transaction) -> list[MaterializedTable | None]:
    return [tx.tables.get(definition.workflow_id) for definition in definitions]
