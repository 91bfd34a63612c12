"""The mirror: what people did in the scheduler becomes the table's status, and what the scheduler lost is given back.

A pause or resume is taken over by a compare-and-set on the revision that was read before the scheduler was asked, never while a
command is under way. After a command whose calls may still be on their way (its process was lost, or its call got no answer)
a difference may be its late effect: it is repaired, not taken over, until a whole pass has begun after the longest call time.
The schedule is the table's alone: a workflow that ticks on another grid is always corrected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from mt_core.errors import MtError, TableBusy
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.intents import Command
from mt_core.tables.keeper import KeeperReport, KeeperState
from mt_core.tables.ports import Transaction
from mt_core.tables.runs.ledger import in_transaction
from mt_core.tables.services import TableServices

# A scheduler that fails so often in one pass is not asked to repair more in it: it may be away, and each try takes its time.
MOST_FAILURES = 3
_SCHEDULER = "scheduler"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Tables as they were read at an instant, and then what the scheduler says of each that can be compared with it."""

    at: datetime
    tables: Sequence[MaterializedTable]
    states: Mapping[str, KeeperReport]

    @property
    def differing(self) -> list[MaterializedTable]:
        """The tables whose workflow is there, and paused where they are not, or the other way round."""
        return [table for table in self.tables if self.states[table.table_id].state is _opposite(table)]


def look(services: TableServices, tables: Iterable[MaterializedTable], at: datetime) -> Seen:
    """Ask the scheduler about *tables*, which were read at *at*; raises WorkflowError."""
    settled = [table for table in tables if table.intent is None and table.status is not RefreshStatus.INITIALIZING]
    return Seen(at=at, tables=settled, states=services.keeper.observe(settled))


def take_over(services: TableServices, seen: Seen) -> list[str]:
    """Let tables be what somebody made of their workflows in the scheduler; return what was done, in words."""
    done: list[str] = []
    for table in seen.differing:
        if table.repair_until is None:
            found = seen.states[table.table_id]
            in_transaction(services.registry, partial(_mirror, table=table, found=found))
            done.append(f"{table.identifier} is {found.state} in the scheduler")
    return done


def repair(services: TableServices, seen: Seen) -> list[str]:
    """Give the scheduler back what it lost or was late with; return what was done, in words.

    Those tables come first that changed least, so that some which fail each time do not keep others waiting.
    """
    done: list[str] = []
    failures = 0
    for table in sorted(seen.tables, key=lambda table: table.revision):
        try:
            done.extend(_repaired(services, seen, table))
        except TableBusy:
            continue
        except MtError as error:
            log.warning("repairing %s failed: %s", table.identifier, error, extra={"action": "reconcile_failed"})
            failures += 1
            if failures >= MOST_FAILURES:
                break
    return done


def _repaired(services: TableServices, seen: Seen, table: MaterializedTable) -> list[str]:
    if seen.states[table.table_id].state is KeeperState.MISSING:
        if services.keeper.objection(table):
            return []
        with _repair(services, table) as command:
            handle = services.keeper.create(command.table, active=table.status is not RefreshStatus.SUSPENDED)
            scheduler = services.settings.scheduler_type
            command.finish(lambda _tx, now: replace(now, handler=handle, scheduler=scheduler))
        return [f"made the workflow of {table.identifier} again"]
    done = _corrected(services, seen, table)
    if table.repair_until is not None and seen.at >= table.repair_until:
        in_transaction(services.registry, partial(_end_repair, table=table))
    return done


def _corrected(services: TableServices, seen: Seen, table: MaterializedTable) -> list[str]:
    """Correct the schedule, and what is paused though it should not be, or the other way round."""
    late, scheduled = table.repair_until is not None, seen.states[table.table_id].on_schedule
    reschedules = not scheduled if late else scheduled is False
    sets_back = late and table in seen.differing
    if not reschedules and not sets_back:
        return []
    with _repair(services, table) as command:
        if reschedules:
            services.keeper.reschedule(command.table)
        if sets_back:
            services.keeper.ensure(command.table, active=table.status is not RefreshStatus.SUSPENDED)
    done = [f"the workflow of {table.identifier} is {_wanted(table)} again"] if sets_back else []
    if scheduled is False:
        done.append(f"the workflow of {table.identifier} ticks every {table.definition.freshness.words} again")
    return done


def _repair(services: TableServices, seen: MaterializedTable) -> Command:
    """Keep commands away while the keeper is corrected: a correction must not overtake theirs."""

    def check(now: MaterializedTable) -> None:
        if (now.table_id, now.revision) != (seen.table_id, seen.revision):
            raise TableBusy(f"{seen.identifier} changed since the scheduler was asked; the next pass looks again.")

    return services.intents.command(seen.identifier, "REPAIR", check=check)


def _mirror(tx: Transaction, table: MaterializedTable, found: KeeperReport) -> None:
    """Take over what somebody did in the scheduler, unless the row changed since it was read."""
    now = tx.table(table.table_id)
    if now is None or now.revision != table.revision or now.intent is not None:
        return
    suspended = now.status is RefreshStatus.SUSPENDED
    target = RefreshStatus.ACTIVATED if suspended else RefreshStatus.SUSPENDED
    tx.replace_table(now.advance(target, by=found.changed_by or _SCHEDULER, at=found.changed_at or tx.now()))
    # A workflow that has to be made again begins as it was left.
    tx.pause_definition(table.table_id, paused=target is RefreshStatus.SUSPENDED)


def _end_repair(tx: Transaction, table: MaterializedTable) -> None:
    now = tx.table(table.table_id)
    if now is not None and now.intent is None and now.repair_until == table.repair_until:
        tx.replace_table(replace(now, repair_until=None))


def _wanted(table: MaterializedTable) -> KeeperState:
    return KeeperState.PAUSED if table.status is RefreshStatus.SUSPENDED else KeeperState.ACTIVE


def _opposite(table: MaterializedTable) -> KeeperState:
    return KeeperState.ACTIVE if table.status is RefreshStatus.SUSPENDED else KeeperState.PAUSED
