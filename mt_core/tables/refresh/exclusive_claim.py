"""An exclusive claim on a table's storage, for work other than refreshes.

Schema changes and the expiry of old snapshots need it. It is taken only while no run of the table is RUNNING,
under an exclusive intent that prevents new runs from starting. It fences older claims: none of their commits
can succeed afterwards.
"""

from __future__ import annotations

from functools import partial

from mt_core.errors import TableBusy
from mt_core.model.fence import Fenced, RefreshWriter, carried_out
from mt_core.model.run import RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices


def claim_exclusively(services: TableServices, table: MaterializedTable, *, wait_s: float) -> None:
    """Wait until no run of *table* is RUNNING, then claim the table and fence older claims.

    Raises TableBusy if a refresh takes longer than *wait_s* seconds.
    """

    def claim(tx: Transaction) -> int | None:
        if tx.runs.newest(table_id=table.table_id, statuses=[RunStatus.RUNNING], limit=1):
            return None
        return tx.tables.next_claim(table.table_id)

    claimed = services.signal.until(partial(in_transaction, services.registry, claim), wait_s)
    if claimed is None:
        raise TableBusy(
            f"A refresh of {table.identifier} is still running after {wait_s:.0f} s; "
            "wait for it or cancel it, then try again.",
            table=str(table.identifier),
        )
    fence(services, table, claimed)


def fence(services: TableServices, table: MaterializedTable, claim: int) -> None:
    """Set the storage's epoch to *claim* and drop the branches of runs.

    Raises TableBusy if there is a newer claim.
    """
    writer, identifier = RefreshWriter(number=claim, branch=""), table.identifier
    metadata = services.engine.metadata
    load, swap = partial(metadata.load, identifier), partial(metadata.swap, identifier)
    try:
        for _ in carried_out(str(identifier), "close", load, writer.close, swap):
            pass
    except Fenced:
        raise TableBusy(
            f"Another command took over materialized table {identifier}; check its state and try again.",
            table=str(identifier),
        ) from None
