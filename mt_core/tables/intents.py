"""Intents: a command on a table is written down before its first effect, step by step, and cleared with its last.

Whoever holds the intent's token may go on; another command waits a little for it to settle, then refuses naming it. DROP alone
replaces any intent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mt_core.errors import MtError, TableBusy, TableNotFound, WorkflowError
from mt_core.model.table import Intent, MaterializedTable, RefreshStatus, TableIdentifier
from mt_core.tables.changes import Signal
from mt_core.tables.ports import Registry, Transaction
from mt_core.tables.runs.ledger import in_transaction
from mt_core.tables.settings import ManagerSettings

LEASE = timedelta(minutes=5)
# No call to a scheduler is answered, or has an effect, later than this.
LONGEST_CALL = timedelta(minutes=3)
Change = Callable[[Transaction, MaterializedTable], MaterializedTable]


class Intents:
    """Takes, steps and clears intents. Thread-safe."""

    def __init__(self, registry: Registry, settings: ManagerSettings, signal: Signal) -> None:
        self._registry, self._settings, self._signal = registry, settings, signal

    def new(self, tx: Transaction, command: str, step: str, token: int, detail: Mapping[str, Any]) -> Intent:
        """Return an intent of this process, leased from now."""
        now = tx.now()
        return Intent(
            command=command,
            step=step,
            token=token,
            owner=self._settings.owner,
            lease_until=now + LEASE,
            started_at=now,
            detail=dict(detail),
        )

    def take(
        self,
        identifier: TableIdentifier,
        command: str,
        *,
        check: Callable[[MaterializedTable], None],
        detail: Mapping[str, Any] | None = None,
    ) -> MaterializedTable:
        """Write an intent on a table that has none and passes *check*; raises TableNotFound, TableBusy after a short wait.

        *detail* is what it takes to finish the command after its process was lost.
        """
        taken: list[MaterializedTable] = []

        def write(tx: Transaction) -> MaterializedTable | None:
            table = found(tx, identifier)
            if table.intent is not None:
                return None
            check(table)
            intent = self.new(tx, command, "begin", table.revision + 1, detail or {})
            return tx.replace_table(replace(table, intent=intent))

        def attempt() -> bool:
            table = in_transaction(self._registry, write)
            if table is not None:
                taken.append(table)
            return bool(taken)

        if not self._signal.wait(attempt, self._settings.intent_wait_s):
            raise busy(self.current(identifier))
        return taken[0]

    def current(self, identifier: TableIdentifier) -> MaterializedTable:
        """Return the table as it is; raises TableNotFound."""
        return in_transaction(self._registry, lambda tx: found(tx, identifier))

    def change(self, table: MaterializedTable, change: Change) -> MaterializedTable:
        """Apply *change* to the table as it is now, if the intent is still ours; raises TableBusy when it was taken over."""

        def work(tx: Transaction) -> MaterializedTable:
            now = tx.table(table.table_id)
            if now is None or now.intent is None or table.intent is None or now.intent.token != table.intent.token:
                raise TableBusy(
                    f"Another command took over materialized table {table.identifier}; look at it and try again.",
                    table=str(table.identifier),
                )
            return tx.replace_table(change(tx, now))

        changed = in_transaction(self._registry, work)
        self._signal.set()
        return changed

    def step(self, table: MaterializedTable, name: str) -> MaterializedTable:
        """Record that the step *name* begins."""

        def to_step(_tx: Transaction, now: MaterializedTable) -> MaterializedTable:
            assert now.intent is not None
            return replace(now, intent=replace(now.intent, step=name))

        return self.change(table, to_step)

    def clear(self, table: MaterializedTable, *, late: timedelta | None = None) -> MaterializedTable:
        """Clear the intent and change nothing else; *late* is how long a call to the scheduler may still have an effect."""

        def cleared(tx: Transaction, now: MaterializedTable) -> MaterializedTable:
            return replace(now, intent=None, repair_until=now.repair_until if late is None else tx.now() + late)

        return self.change(table, cleared)

    def give_up(self, table: MaterializedTable, error: MtError) -> MaterializedTable:
        """Clear the intent of a command that failed with *error*.

        After an error of the scheduler its call may have had its effect, or may have it yet: what differs is repaired.
        """
        return self.clear(table, late=LONGEST_CALL if isinstance(error, WorkflowError) else None)


def found(tx: Transaction, identifier: TableIdentifier) -> MaterializedTable:
    """Return the table of that name; raises TableNotFound."""
    table = tx.table_named(identifier)
    if table is None:
        raise TableNotFound(
            f"Materialized table {identifier} does not exist; SHOW MATERIALIZED TABLES lists those there are.",
            table=str(identifier),
        )
    return table


def busy(table: MaterializedTable) -> TableBusy:
    """Return the error that names what is going on."""
    if table.status is RefreshStatus.INITIALIZING:
        since = table.intent.started_at if table.intent else table.created_at
        return TableBusy(
            f"Materialized table {table.identifier} is being created since {since:%H:%M:%S}; wait for it or DROP it.",
            table=str(table.identifier),
        )
    command = table.intent.command if table.intent else "another command"
    return TableBusy(
        f"{command} is under way on materialized table {table.identifier}; wait for it and try again.",
        table=str(table.identifier),
    )
