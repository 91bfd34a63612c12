"""What a scheduler outside the gateway reads: its workflows, with the statement that made each table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mt_core.errors import RequestInvalid, TableNotFound
from mt_core.tables.ledger import in_transaction
from mt_core.tables.ports import Registry, Transaction
from mt_core.tables.show_create import show_create
from mt_core.workflow.definitions import SHARDS, WorkflowDefinition
from mt_core.workflow.publishing import PublishedShard, published_shard, workflow_json


class PublishedWorkflows:
    """The workflows of the scheduler in use, which are those that it gave a name. Thread-safe."""

    def __init__(self, registry: Registry, scheduler: str) -> None:
        self._registry, self.scheduler = registry, scheduler

    def shard(self, number: int, details: str) -> PublishedShard:
        """Return a shard; *details* is the URL under which each of its workflows is found by its id.

        Raises RequestInvalid for a number that is no shard.
        """
        if not 0 <= number < SHARDS:
            raise RequestInvalid(f"There is no shard {number}; shards have the numbers 0 to {SHARDS - 1}.")
        _, found = self._registry.definitions.shard(number)
        return published_shard(self.scheduler, number, self._rendered(found, details))

    def workflow(self, workflow_id: str, details: str) -> dict[str, Any]:
        """Return one workflow; raises TableNotFound."""
        found = self._registry.definitions.get(workflow_id)
        if found is None or not found.name:
            raise TableNotFound(
                f"Scheduler {self.scheduler} has no workflow {workflow_id}; its table was dropped, or never existed."
            )
        return self._rendered([found], details)[0]

    def _rendered(self, definitions: Iterable[WorkflowDefinition], details: str) -> list[dict[str, Any]]:
        def render(tx: Transaction) -> list[dict[str, Any]]:
            return [
                workflow_json(
                    definition,
                    text=_statement(tx, definition.workflow_id),
                    details_url=f"{details}/{definition.workflow_id}",
                )
                for definition in definitions
                if definition.name
            ]

        return in_transaction(self._registry, render)


def _statement(tx: Transaction, table_id: str) -> str:
    table = tx.table(table_id)
    return show_create(table, or_alter=False) if table is not None else ""
