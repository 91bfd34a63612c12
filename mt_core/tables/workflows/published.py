"""What a scheduler outside the gateway reads: its workflows, with the statement that made each table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mt_core.errors import RequestInvalid, TableNotFound
from mt_core.model.table import MaterializedTable
from mt_core.secrets import without_passwords
from mt_core.tables.definition.show_create import show_create
from mt_core.tables.pages import PAGE
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.workflow.definitions import SHARDS, WorkflowDefinition
from mt_core.workflow.publishing import PublishedShard, published_shard, workflow_json


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered:
    """A shard as it was asked for last: schedulers ask every few seconds, and mostly nothing has changed."""

    version: str
    details: str
    shard: PublishedShard


class PublishedWorkflows:
    """The workflows of the scheduler in use, which are those that it gave a name. Thread-safe."""

    def __init__(self, registry: Registry, scheduler: str) -> None:
        self._registry, self.scheduler = registry, scheduler
        self._rendered: dict[int, _Rendered] = {}

    def shard(self, number: int, details: str) -> PublishedShard:
        """Return a shard; *details* is the URL under which each of its workflows is found by its id.

        Raises RequestInvalid for a number that is no shard.
        """
        if not 0 <= number < SHARDS:
            raise RequestInvalid(f"There is no shard {number}; shards have the numbers 0 to {SHARDS - 1}.")
        # Read before the rest: what changes in between is rendered again at the next question.
        version = in_transaction(self._registry, lambda tx: tx.workflows.shard_version(number))
        known = self._rendered.get(number)
        if known is not None and (known.version, known.details) == (version, details):
            return known.shard
        state, found = self._registry.definitions.shard(number)
        shard = published_shard(self.scheduler, number, self._render(found, details), state=state)
        self._rendered[number] = _Rendered(version=version, details=details, shard=shard)
        return shard

    def workflow(self, workflow_id: str, details: str) -> dict[str, Any]:
        """Return one workflow; raises TableNotFound."""
        found = self._registry.definitions.get(workflow_id)
        if found is None or not found.name:
            raise TableNotFound(
                f"Scheduler {self.scheduler} has no workflow {workflow_id}; its table was dropped, or never existed."
            )
        return self._render([found], details)[0]

    def _render(self, definitions: Iterable[WorkflowDefinition], details: str) -> list[dict[str, Any]]:
        named = [definition for definition in definitions if definition.name]
        tables: list[MaterializedTable | None] = []
        for first in range(0, len(named), PAGE):
            page = [definition.workflow_id for definition in named[first : first + PAGE]]
            tables += in_transaction(self._registry, partial(_tables, table_ids=page))
        return [
            workflow_json(definition, text=_statement(table), details_url=f"{details}/{definition.workflow_id}")
            for definition, table in zip(named, tables, strict=True)
        ]


def _tables(tx: Transaction, *, table_ids: Iterable[str]) -> list[MaterializedTable | None]:
    return [tx.tables.get(table_id) for table_id in table_ids]


def _statement(table: MaterializedTable | None) -> str:
    # Whoever reads this never runs it, so passwords in the query are hidden as well.
    return without_passwords(show_create(table, or_alter=False)) if table is not None else ""
