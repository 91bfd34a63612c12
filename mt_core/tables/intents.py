"""Intents: a command on a table is recorded before its first effect, step by step, and cleared with its last.

The holder of the intent's token may proceed; another command waits a little for the intent to be cleared,
then refuses, naming it. Only DROP replaces any intent. The lease of an intent is renewed for as long as its
command is at work in this process, however long its calls of Spark and of the scheduler take; others may
settle the command once the lease has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

from mt_core.errors import MtError, TableBusy, TableNotFound, WorkflowError
from mt_core.model.table import Intent, MaterializedTable, RefreshStatus, TableIdentifier
from mt_core.tables.registry import Registry, Transaction, in_transaction, transactional
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.signal import Signal

LEASE = timedelta(minutes=5)
# No call of a scheduler is answered, or has an effect, later than this.
LONGEST_CALL = timedelta(minutes=3)
Change = Callable[[Transaction, MaterializedTable], MaterializedTable]
Check = Callable[[MaterializedTable], None]


class Intents:
    """Writes, steps and clears intents. Thread-safe."""

    def __init__(self, registry: Registry, settings: ManagerSettings, signal: Signal) -> None:
        self.registry, self._settings, self._signal = registry, settings, signal
        # The token of each intent whose command is at work here, by table.
        self._at_work: dict[str, int] = {}

    @contextmanager
    def at_work(self, table: MaterializedTable) -> Iterator[None]:
        """Keep the intent of *table*, which this process has written, until the block ends."""
        assert table.intent is not None
        self._at_work[table.table_id] = table.intent.token
        try:
            yield
        finally:
            # A DROP may have replaced the intent, and another CREATE has another table.
            if self._at_work.get(table.table_id) == table.intent.token:
                del self._at_work[table.table_id]

    def is_at_work(self, table: MaterializedTable) -> bool:
        """Return whether the command of the table's intent is at work in this process."""
        return table.intent is not None and self._at_work.get(table.table_id) == table.intent.token

    def renew(self) -> None:
        """Extend the leases of the intents whose commands are at work in this process."""
        for table_id, token in list(self._at_work.items()):
            in_transaction(self.registry, partial(_renew, table_id, token))

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

    def command(
        self,
        identifier: TableIdentifier,
        command: str,
        *,
        check: Check = lambda _table: None,
        detail: Mapping[str, Any] | None = None,
    ) -> Command:
        """Return the block in which *command* holds the intent that `take` writes."""
        return Command(intents=self, take=partial(self.take, identifier, command, check=check, detail=detail))

    def take(
        self,
        identifier: TableIdentifier,
        command: str,
        *,
        check: Check,
        detail: Mapping[str, Any] | None = None,
    ) -> MaterializedTable:
        """Write an intent on a table that has none and passes *check*; raises TableNotFound,
        TableBusy after a short wait.

        *detail* is what it takes to finish the command after its process was lost.
        """

        def write(tx: Transaction) -> MaterializedTable | None:
            table = get_table(tx, identifier)
            if table.intent is not None:
                return None
            check(table)
            intent = self.new(tx, command, "begin", table.revision + 1, detail or {})
            return tx.tables.replace(replace(table, intent=intent))

        attempt = partial(in_transaction, self.registry, write)
        table = self._signal.until(attempt, self._settings.intent_wait_s)
        if table is None:
            raise busy(self.current(identifier))
        # A continuous refresh gives way to the command.
        self._signal.set()
        return table

    @transactional
    def seize(self, tx: Transaction, table: MaterializedTable) -> MaterializedTable | None:
        """Give the intent another token, so that its holder, if it is still alive, can do no more.

        Its lease has ended already, so that another process can seize it in turn. None:
        the intent was cleared or changed.
        """
        now = tx.tables.get(table.table_id)
        if now is None or now.intent is None or now.intent != table.intent:
            return None
        ours = self.new(tx, now.intent.command, now.intent.step, now.revision + 1, now.intent.detail)
        # A call of the last holder may still be on its way to the scheduler.
        until = tx.now() + LONGEST_CALL
        return tx.tables.replace(replace(now, intent=replace(ours, lease_until=tx.now()), repair_until=until))

    @transactional
    def current(self, tx: Transaction, identifier: TableIdentifier) -> MaterializedTable:
        """Return the table as the registry has it; raises TableNotFound."""
        return get_table(tx, identifier)

    def change(self, table: MaterializedTable, change: Change) -> MaterializedTable:
        """Apply *change* to the registry's table if the intent is still ours;
        raises TableBusy when another command seized it.
        """

        def work(tx: Transaction) -> MaterializedTable:
            now = tx.tables.get(table.table_id)
            if (
                now is None
                or now.intent is None
                or table.intent is None
                or now.intent.token != table.intent.token
            ):
                raise TableBusy(
                    f"Another command took over materialized table {table.identifier}; "
                    "look at it and try again.",
                    table=str(table.identifier),
                )
            return tx.tables.replace(change(tx, now))

        changed = in_transaction(self.registry, work)
        self._signal.set()
        return changed

    def step(self, table: MaterializedTable, name: str) -> MaterializedTable:
        """Record that the step *name* begins."""
        return self.change(
            table, lambda _tx, now: replace(now, intent=now.intent and replace(now.intent, step=name))
        )

    def clear(self, table: MaterializedTable, *, late: timedelta | None = None) -> MaterializedTable:
        """Clear the intent and change nothing else; *late* is how long a call of the scheduler may
        still have an effect.
        """
        if late is None:
            return self.change(table, lambda _tx, now: replace(now, intent=None))
        return self.change(table, lambda tx, now: replace(now, intent=None, repair_until=tx.now() + late))


@dataclass(kw_only=True)
class Command:
    """A command that holds an intent while its block runs; `table` is as it was when the intent was written.

    A block that ends without `finish` clears the intent and changes nothing else. After an error of the
    scheduler, or of its plug-in, a call may have had its effect, or may have it later: the reconciler
    repairs what differs.
    """

    intents: Intents
    take: Callable[[], MaterializedTable]
    table: MaterializedTable = field(init=False)
    finished: bool = False
    _at_work: ExitStack = field(init=False, default_factory=ExitStack)

    def __enter__(self) -> Self:
        self.table = self.take()
        self._at_work.enter_context(self.intents.at_work(self.table))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._at_work.close()
        ends_process = error is not None and not isinstance(error, Exception)
        if self.finished or ends_process:
            return
        doubtful = error is not None and (isinstance(error, WorkflowError) or not isinstance(error, MtError))
        self.intents.clear(self.table, late=LONGEST_CALL if doubtful else None)

    def finish(self, change: Change) -> MaterializedTable:
        """Apply the last change and clear the intent with it;
        raises TableBusy when another command seized the intent.

        If this fails, the intent stays: whether the change was stored may be unknown,
        and the reconciler settles it.
        """
        self.finished = True
        return self.intents.change(self.table, lambda tx, now: replace(change(tx, now), intent=None))


def _renew(table_id: str, token: int, tx: Transaction) -> None:
    table = tx.tables.get(table_id)
    if table is not None and table.intent is not None and table.intent.token == token:
        tx.tables.replace(replace(table, intent=replace(table.intent, lease_until=tx.now() + LEASE)))


def get_table(tx: Transaction, identifier: TableIdentifier) -> MaterializedTable:
    """Return the table of that name; raises TableNotFound."""
    table = tx.tables.named(identifier)
    if table is None:
        raise TableNotFound(
            f"Materialized table {identifier} does not exist; "
            "SHOW MATERIALIZED TABLES lists those there are.",
            table=str(identifier),
        )
    return table


def busy(table: MaterializedTable) -> TableBusy:
    """Return the error that names the command under way."""
    if table.status is RefreshStatus.INITIALIZING:
        since = table.intent.started_at if table.intent else table.created_at
        return TableBusy(
            f"Materialized table {table.identifier} is being created since {since:%H:%M:%S}; "
            "wait for it or DROP it.",
            table=str(table.identifier),
        )
    command = table.intent.command if table.intent else "another command"
    return TableBusy(
        f"{command} is under way on materialized table {table.identifier}; wait for it and try again.",
        table=str(table.identifier),
    )
