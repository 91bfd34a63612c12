"""Reconciles storage and scheduler with the registry.

It handles commands whose process was lost, leftovers of DROP, and lost workflows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from mt_core.base.background import attempt
from mt_core.clock import is_ahead
from mt_core.errors import MtError
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.commands.alter import alter_options
from mt_core.tables.commands.create import undo_create
from mt_core.tables.commands.drop import sweep
from mt_core.tables.commands.lifecycle import resume, suspend, suspend_failing
from mt_core.tables.definition.options import CATCH_UP
from mt_core.tables.intents import LEASE
from mt_core.tables.pages import every_table
from mt_core.tables.registry import Tombstone, Transaction, in_transaction
from mt_core.tables.runs.due import without_to_come
from mt_core.tables.runs.failures import why_suspend
from mt_core.tables.services import TableServices
from mt_core.tables.upkeep.gateways import ended_owners
from mt_core.tables.workflows.differences import adopt, observe, repair
from mt_core.workflow.definitions import WorkflowDefinition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """All tables and tombstones, as read at or after `at`.

    `orphaned` are the tables whose command has lost its process. `without_table` are workflows whose table
    was dropped while they were being recreated.
    """

    at: datetime
    tables: Sequence[MaterializedTable]
    tombstones: Sequence[Tombstone]
    orphaned: Sequence[MaterializedTable]
    without_table: Sequence[WorkflowDefinition]


def reconcile(services: TableServices) -> list[str]:
    """Make one pass and return a line for each action.

    A step that fails is logged and tried again in the next pass.
    """
    done: list[str] = []
    snapshot = _read(services)
    for table in snapshot.orphaned:
        assert table.intent is not None
        _attempt(
            services,
            done,
            f"settled {table.intent.command} of {table.identifier}",
            partial(_settle, services, table),
        )
    for tombstone in snapshot.tombstones:
        text = f"removed what was left of {tombstone.identifier}"
        _attempt(services, done, text, partial(sweep, services, tombstone))
    for definition in snapshot.without_table:
        text = f"removed the workflow of {definition.identifier}, which was dropped"
        _attempt(services, done, text, partial(_remove, services, definition))
    ahead = [table for table in snapshot.tables if without_to_come(table, snapshot.at) is not table]
    for table in ahead:
        text = f"made schedule times of {table.identifier} due when they come again: the clock was set back"
        _attempt(services, done, text, partial(_put_back, services, table))
    failing = [
        (table, why)
        for table in snapshot.tables
        if (why := why_suspend(services.settings, table)) is not None
    ]
    for table, why in failing:
        text = f"suspended {table.identifier} after {why}"
        _attempt(services, done, text, partial(suspend_failing, services, table.table_id))
    if snapshot.orphaned or snapshot.tombstones or ahead or failing:
        snapshot = _read(services)
    _attempt(services, done, "", partial(_align, services, snapshot, done))
    return [text for text in done if text]


def _attempt(services: TableServices, done: list[str], text: str, work: Callable[[], object]) -> None:
    what = text or "reconciling workflows"

    def step() -> None:
        try:
            work()
        except MtError as error:
            log.warning(
                "%s failed: %s", what, services.errors.text(what, error), extra={"action": "reconcile_failed"}
            )
        else:
            services.errors.forget(what)
            done.append(text)

    # A scheduler's plug-in may raise any exception, which must not end the pass.
    attempt(what, step)


def _read(services: TableServices) -> _Snapshot:
    # Definitions are read before the tables, because a table's row is written before its workflow definition.
    definitions = services.registry.definitions.all()
    at, ended, tombstones = in_transaction(
        services.registry, lambda tx: (tx.now(), ended_owners(tx), tx.tombstones.all())
    )
    # This process is alive even if it could not renew its lease for a moment.
    ended -= {services.settings.owner}
    tables = every_table(services.registry)
    in_use = {table.table_id for table in tables} | {tombstone.table_id for tombstone in tombstones}
    return _Snapshot(
        at=at,
        tables=tables,
        tombstones=tombstones,
        orphaned=[
            each
            for each in tables
            if each.intent
            and (not is_ahead(each.intent.lease_until, at, 2 * LEASE) or each.intent.owner in ended)
            and not services.intents.is_at_work(each)
        ],
        without_table=[definition for definition in definitions if definition.workflow_id not in in_use],
    )


def _put_back(services: TableServices, table: MaterializedTable) -> None:
    def work(tx: Transaction) -> None:
        now = tx.tables.get(table.table_id)
        if now is not None:
            tx.tables.replace(without_to_come(now, tx.now()))

    in_transaction(services.registry, work)


def _remove(services: TableServices, definition: WorkflowDefinition) -> None:
    services.keeper.remove(definition.workflow_id)
    in_transaction(services.registry, lambda tx: tx.workflows.delete(definition.workflow_id))


def _settle(services: TableServices, table: MaterializedTable) -> None:
    """Handle a command whose process was lost: undo a CREATE, finish any other command."""
    seized = services.intents.seize(table)
    if seized is None:
        return
    table = seized
    if table.status is RefreshStatus.INITIALIZING:
        undo_create(services, table)
        return
    assert table.intent is not None
    command, detail = table.intent.command, table.intent.detail
    options = detail.get("options", {})
    if detail.get("reschedules"):
        services.keeper.reschedule(table)
    services.intents.clear(table)
    if command == "ALTER" and "set" in detail:
        alter_options(services, table.identifier, options=detail["set"], removed=detail["reset"])
    if command == "SUSPEND" and table.status is RefreshStatus.ACTIVATED:
        by = detail.get("by", "SQL, finished after a restart")
        suspend(services, table.identifier, by=by, reason=detail.get("reason"))
    elif command == "RESUME" and (table.status is RefreshStatus.SUSPENDED or options.keys() - {CATCH_UP}):
        resume(services, table.identifier, options, by="SQL, finished after a restart")


def _align(services: TableServices, snapshot: _Snapshot, done: list[str]) -> None:
    """Compare tables with their workflows: adopt the changes of users, and repair lost workflows."""
    observation = observe(services, snapshot.tables, snapshot.at)
    done += adopt(services, observation)
    done += repair(services, observation)
