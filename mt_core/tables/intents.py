"""Intents: records of the command in progress on a table.

A command changes the registry, the storage and the scheduler, which share no transaction, and its process may
crash between any two of these changes. The intent in the table's row makes that recoverable: it is written
before the first effect, updated at each step, and cleared by the last. It names the command and its step, and
excludes other commands. Its token is replaced by a takeover, so that the former owner can no longer change
the row. Only the owner of the token may proceed. Another command waits briefly for the intent to be cleared;
after that it is refused with the name of the command in progress. Only DROP replaces any intent.

The lease of an intent is renewed as long as its command is running in this process, however long its calls of
Spark and of the scheduler take. Once the lease has expired, the reconciler finishes or undoes the command. A
call of the scheduler may still take effect after its process has crashed, up to `LONGEST_CALL` later. Until
then, differences in the scheduler are repaired, not adopted.
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
# The maximum time until a call of a scheduler returns or takes effect.
LONGEST_CALL = timedelta(minutes=3)
Change = Callable[[Transaction, MaterializedTable], MaterializedTable]
Check = Callable[[MaterializedTable], None]


class Intents:
    """Writes, updates and clears intents. Thread-safe."""

    def __init__(self, registry: Registry, settings: ManagerSettings, signal: Signal) -> None:
        self.registry, self._settings, self._signal = registry, settings, signal
        # The tokens of the intents whose commands are running in this process, by table id.
        self._at_work: dict[str, int] = {}

    @contextmanager
    def at_work(self, table: MaterializedTable) -> Iterator[None]:
        """Renew the lease of the intent of *table*, which this process has written, until the block ends."""
        assert table.intent is not None
        self._at_work[table.table_id] = table.intent.token
        try:
            yield
        finally:
            # A DROP may have replaced the intent in the meantime.
            if self._at_work.get(table.table_id) == table.intent.token:
                del self._at_work[table.table_id]

    def is_at_work(self, table: MaterializedTable) -> bool:
        """Return whether the command of the table's intent is running in this process."""
        return table.intent is not None and self._at_work.get(table.table_id) == table.intent.token

    def renew(self) -> None:
        """Extend the leases of all intents whose commands are running in this process."""
        for table_id, token in list(self._at_work.items()):
            in_transaction(self.registry, partial(_renew, table_id, token))

    def new(self, tx: Transaction, command: str, step: str, token: int, detail: Mapping[str, Any]) -> Intent:
        """Return an intent of this process, with a lease that starts now."""
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
        """Return a context manager that holds an intent of *command* for its block."""
        return Command(intents=self, take=partial(self.take, identifier, command, check=check, detail=detail))

    def take(
        self,
        identifier: TableIdentifier,
        command: str,
        *,
        check: Check,
        detail: Mapping[str, Any] | None = None,
    ) -> MaterializedTable:
        """Write an intent on a table that has no intent and passes *check*.

        *detail* is what the reconciler needs to finish the command if its process is lost. Raises
        TableNotFound, or TableBusy if the table still has an intent after a short wait.
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
        # Wakes the table's continuous run, which then ends because of the intent.
        self._signal.set()
        return table

    @transactional
    def seize(self, tx: Transaction, table: MaterializedTable) -> MaterializedTable | None:
        """Replace the token of the intent, so that its owner, if it is still running, can do nothing more.

        The new lease has already expired, so that another process can in turn seize the intent. Returns None
        if the intent was cleared or changed.
        """
        now = tx.tables.get(table.table_id)
        if now is None or now.intent is None or now.intent != table.intent:
            return None
        ours = self.new(tx, now.intent.command, now.intent.step, now.revision + 1, now.intent.detail)
        # A call of the previous owner may not have reached the scheduler yet.
        until = tx.now() + LONGEST_CALL
        return tx.tables.replace(replace(now, intent=replace(ours, lease_until=tx.now()), repair_until=until))

    @transactional
    def current(self, tx: Transaction, identifier: TableIdentifier) -> MaterializedTable:
        """Return the table's row in the registry; raise TableNotFound if there is none."""
        return get_table(tx, identifier)

    def change(self, table: MaterializedTable, change: Change) -> MaterializedTable:
        """Apply *change* to the registry's row if the intent still has our token.

        Raises TableBusy if another command has seized the intent.
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
                    "check its state and try again.",
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
        """Clear the intent and change nothing else.

        *late* is how long a call of the scheduler may still take effect.
        """
        if late is None:
            return self.change(table, lambda _tx, now: replace(now, intent=None))
        return self.change(table, lambda tx, now: replace(now, intent=None, repair_until=tx.now() + late))


@dataclass(kw_only=True)
class Command:
    """A command that holds an intent during its block; `table` is the row when the intent was written.

    If the block ends without `finish`, the intent is cleared and nothing else changes. After an error of the
    scheduler or of its plug-in, a call may have taken effect or may do so later, so the reconciler repairs
    differences.
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
        is_exit = error is not None and not isinstance(error, Exception)
        if self.finished or is_exit:
            return
        is_uncertain = error is not None and (
            isinstance(error, WorkflowError) or not isinstance(error, MtError)
        )
        self.intents.clear(self.table, late=LONGEST_CALL if is_uncertain else None)

    def finish(self, change: Change) -> MaterializedTable:
        """Apply the last change of the command and clear the intent in the same transaction.

        Raises TableBusy if another command has seized the intent. If this fails, the intent is not cleared,
        because the change may or may not have been stored; the reconciler then finishes or undoes the
        command.
        """
        self.finished = True
        return self.intents.change(self.table, lambda tx, now: replace(change(tx, now), intent=None))


def _renew(table_id: str, token: int, tx: Transaction) -> None:
    table = tx.tables.get(table_id)
    if table is not None and table.intent is not None and table.intent.token == token:
        tx.tables.replace(replace(table, intent=replace(table.intent, lease_until=tx.now() + LEASE)))


def get_table(tx: Transaction, identifier: TableIdentifier) -> MaterializedTable:
    """Return the table with this name; raise TableNotFound if there is none."""
    table = tx.tables.named(identifier)
    if table is None:
        raise TableNotFound(
            f"Materialized table {identifier} does not exist; "
            "SHOW MATERIALIZED TABLES lists the existing ones.",
            table=str(identifier),
        )
    return table


def busy(table: MaterializedTable) -> TableBusy:
    """Return the error for a refused command, which names the command in progress."""
    if table.status is RefreshStatus.INITIALIZING:
        since = table.intent.started_at if table.intent else table.created_at
        return TableBusy(
            f"Materialized table {table.identifier} is being created (since {since:%H:%M:%S}); "
            "wait for it or DROP it.",
            table=str(table.identifier),
        )
    command = table.intent.command if table.intent else "another command"
    return TableBusy(
        f"{command} is in progress on materialized table {table.identifier}; wait for it and try again.",
        table=str(table.identifier),
    )
