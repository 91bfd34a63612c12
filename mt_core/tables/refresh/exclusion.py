"""Exclusion of refreshes from a table's storage, for work other than refreshes.

Schema changes and the expiry of old snapshots need it. They hold an exclusive intent, which prevents new runs
from starting, and wait until no run of the table is RUNNING. This commits nothing to the storage: a run that
was taken for lost may still publish, and what it publishes is right (docs/design/refresh-protocol.md).
"""

from __future__ import annotations

from functools import partial

from mt_core.errors import TableBusy
from mt_core.model.run import RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices


def wait_for_runs(services: TableServices, table: MaterializedTable, *, wait_s: float) -> None:
    """Wait until no run of *table* is RUNNING.

    The caller holds an exclusive intent. Raises TableBusy if a refresh takes longer than *wait_s* seconds.
    """

    def idle(tx: Transaction) -> bool | None:
        is_busy = tx.runs.newest(table_id=table.table_id, statuses=[RunStatus.RUNNING], limit=1)
        return None if is_busy else True

    if services.signal.until(partial(in_transaction, services.registry, idle), wait_s) is None:
        raise TableBusy(
            f"A refresh of {table.identifier} is still running after {wait_s:.0f} s; "
            "wait for it or cancel it, then try again.",
            table=str(table.identifier),
        )
