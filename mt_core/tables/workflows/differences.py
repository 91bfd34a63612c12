"""Differences between tables and their workflows.

If a user pauses or resumes a workflow in the scheduler, the table adopts the change. If the scheduler has
lost a workflow, the workflow is recreated. A pause or resume is adopted by a compare-and-set on the revision
that was read before the scheduler was called, and never while a command is in progress. After a command whose
calls may still take effect (because its process was lost, or a call got no response), a difference may be a
delayed effect of that command. Until a pass begins after the maximum duration of a call, such a difference is
repaired, not adopted. Only the table determines the schedule: a workflow with another schedule is always
corrected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from mt_core.clock import is_ahead
from mt_core.errors import MtError, TableBusy
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.intents import LONGEST_CALL, Command
from mt_core.tables.keeper import KeeperReport, KeeperState
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices

# After this many failures a pass stops repairing, because the scheduler may be down and each try may time
# out.
MOST_FAILURES = 3
_SCHEDULER = "scheduler"
# Workflow states that contradict their table, each with whether the table is suspended.
_DIFFERING = {(KeeperState.ACTIVE, True), (KeeperState.PAUSED, False)}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Tables without a command in progress, as read at an instant, and the keeper's later reports on them."""

    at: datetime
    tables: Sequence[MaterializedTable]
    reports: Mapping[str, KeeperReport]

    @property
    def differing(self) -> list[MaterializedTable]:
        """The tables that are suspended but have an active workflow, or are active but have a paused one."""
        return [
            table
            for table in self.tables
            if (self.reports[table.table_id].state, table.status is RefreshStatus.SUSPENDED) in _DIFFERING
        ]


def observe(services: TableServices, tables: Iterable[MaterializedTable], at: datetime) -> Observation:
    """Read the keeper's reports on *tables*, which were read at *at*, and store them.

    Raises WorkflowError if the scheduler fails.
    """
    settled = [
        table for table in tables if table.intent is None and table.status is not RefreshStatus.INITIALIZING
    ]
    reports = services.keeper.observe(settled)
    for table_id, report in reports.items():
        services.reports[table_id] = at, report
    return Observation(at=at, tables=settled, reports=reports)


def adopt(services: TableServices, observation: Observation) -> list[str]:
    """Give tables the status that users gave their workflows in the scheduler.

    Returns a line for each action.
    """
    done: list[str] = []
    for table in observation.differing:
        if table.repair_until is None:
            report = observation.reports[table.table_id]
            in_transaction(services.registry, partial(_adopt, table=table, report=report))
            done.append(
                f"{table.identifier} is {report.state} in the "
                f"{'stream' if table.definition.streams else _SCHEDULER}"
            )
    return done


def repair(services: TableServices, observation: Observation) -> list[str]:
    """Recreate workflows that the scheduler has lost, and correct workflows that a delayed call has changed.

    Tables with the fewest changes are repaired first, so that tables that fail each time do not block the
    others. Returns a line for each action.
    """
    done: list[str] = []
    failures = 0
    for table in sorted(observation.tables, key=lambda table: table.revision):
        try:
            done += _repair(services, observation, table)
            services.errors.forget(f"repairing {table.identifier}")
        except TableBusy:
            continue
        except MtError as error:
            text = services.errors.text(f"repairing {table.identifier}", error)
            log.warning(
                "repairing %s failed: %s", table.identifier, text, extra={"action": "reconcile_failed"}
            )
            failures += 1
            if failures >= MOST_FAILURES:
                break
    return done


def _repair(services: TableServices, observation: Observation, table: MaterializedTable) -> list[str]:
    if observation.reports[table.table_id].state is KeeperState.MISSING:
        if services.keeper.objection(table):
            return []
        with _correcting(services, table) as command:
            handle = services.keeper.create(command.table, active=table.status is not RefreshStatus.SUSPENDED)
            scheduler = services.settings.scheduler_type
            command.finish(lambda _tx, now: replace(now, handler=handle, scheduler=scheduler))
        return [f"recreated the workflow of {table.identifier}"]
    done = _correct(services, observation, table)
    if table.repair_until is not None and not is_ahead(table.repair_until, observation.at, LONGEST_CALL):
        in_transaction(services.registry, partial(_end_repair, table=table))
    return done


def _correct(services: TableServices, observation: Observation, table: MaterializedTable) -> list[str]:
    """Correct the schedule of a workflow and, if a delayed call may have changed it, the state.

    Returns a line for each action.
    """
    late, scheduled = table.repair_until is not None, observation.reports[table.table_id].on_schedule
    reschedules = not scheduled if late else scheduled is False
    restores_state = late and table in observation.differing
    if not reschedules and not restores_state:
        return []
    with _correcting(services, table) as command:
        if reschedules:
            services.keeper.reschedule(command.table)
        if restores_state:
            services.keeper.ensure(command.table, active=table.status is not RefreshStatus.SUSPENDED)
    wanted = KeeperState.PAUSED if table.status is RefreshStatus.SUSPENDED else KeeperState.ACTIVE
    done = [f"the workflow of {table.identifier} is {wanted} again"] if restores_state else []
    if scheduled is False:
        done.append(f"the workflow of {table.identifier} ticks {table.definition.cadence.every} again")
    return done


def _correcting(services: TableServices, table: MaterializedTable) -> Command:
    """Exclude commands while the keeper is corrected: a correction must not overtake a command's call."""

    def check(now: MaterializedTable) -> None:
        if (now.table_id, now.revision) != (table.table_id, table.revision):
            raise TableBusy(
                f"{table.identifier} changed after the scheduler was read; the next pass tries again."
            )

    return services.intents.command(table.identifier, "REPAIR", check=check)


def _adopt(tx: Transaction, table: MaterializedTable, report: KeeperReport) -> None:
    """Adopt the state of the workflow, unless the table has changed since it was read."""
    now = tx.tables.get(table.table_id)
    if now is None or now.revision != table.revision or now.intent is not None:
        return
    suspended = now.status is RefreshStatus.SUSPENDED
    target = RefreshStatus.ACTIVATED if suspended else RefreshStatus.SUSPENDED
    by, at = report.changed_by or _SCHEDULER, report.changed_at or tx.now()
    tx.tables.replace(
        now.advance(target, by=by, at=at, reason=None if target is RefreshStatus.ACTIVATED else report.reason)
    )
    # If the workflow is recreated, it starts in the state that the user gave it.
    tx.workflows.pause(table.table_id, paused=target is RefreshStatus.SUSPENDED)


def _end_repair(tx: Transaction, table: MaterializedTable) -> None:
    now = tx.tables.get(table.table_id)
    if now is not None and now.intent is None and now.repair_until == table.repair_until:
        tx.tables.replace(replace(now, repair_until=None))
