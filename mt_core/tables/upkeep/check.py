"""The periodic check of tables that were refreshed by applying changes.

It compares these tables with their queries. If rows differ, changes are no longer applied to the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from mt_core.base.background import attempt
from mt_core.clock import is_ahead
from mt_core.errors import Canceled, EngineUnavailable, MtError, StorageMissing
from mt_core.incremental.strategy import Way
from mt_core.model.run import DONE, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.definition.options import FULL
from mt_core.tables.pages import on_each_page
from mt_core.tables.refresh.forecast import strategy_option
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.settings import verify_interval_of
from mt_core.tables.verification.verification import SAMPLE, Verification, VerificationResult

log = logging.getLogger(__name__)
_RECENT = 50
_PUBLISHES = (RunStatus.SUCCEEDED, RunStatus.RUNNING)


def check_tables(services: TableServices) -> list[str]:
    """Compare each table whose check is due, one after the other, and return a line for each result."""
    results: list[str] = []
    for table in on_each_page(services.registry, partial(_due, services)):
        attempt(f"check of {table.identifier}", partial(_check, services, table, results))
    return results


def _due(
    services: TableServices, tx: Transaction, tables: Iterable[MaterializedTable]
) -> list[MaterializedTable]:
    return [table for table in tables if _is_due(services, tx, table)]


def _is_due(services: TableServices, tx: Transaction, table: MaterializedTable) -> bool:
    interval = verify_interval_of(table.definition.options, services.settings)
    if not interval or table.doubt is not None or table.intent is not None:
        return False
    if strategy_option(table.definition) == FULL:
        return False
    if table.status is not RefreshStatus.ACTIVATED or table.rebuild_due is not None:
        return False
    checks = tx.runs.newest(table_id=table.table_id, kinds=[RunKind.VERIFY], statuses=DONE, limit=_RECENT)
    last = next((check.requested_at for check in checks if SAMPLE not in check.options), table.created_at)
    return not is_ahead(last + interval, tx.now(), interval) and _has_applied(tx, table, last)


def _has_applied(tx: Transaction, table: MaterializedTable, since: datetime) -> bool:
    """Return whether a refresh has applied changes since *since*.

    Without applied changes there is nothing to check, because a recomputation is always correct.
    """
    for run in tx.runs.newest(table_id=table.table_id, statuses=_PUBLISHES, limit=_RECENT):
        if run.published_at is not None and run.published_at < since:
            return False
        if {run.strategy, *(batch.strategy for batch in run.recent)} - {None, Way.RECOMPUTE.value}:
            return True
    return False


def _check(services: TableServices, table: MaterializedTable, results: list[str]) -> None:
    verification = Verification(services=services, table=table, job_id=services.new_id(), in_buckets=True)
    try:
        verified = verification.run()
        if not verified.equal:
            # Compare rows, which takes longer, because hash sums do not show how many rows differ.
            verified = replace(verification, job_id=services.new_id(), in_buckets=False).run()
    except (Canceled, EngineUnavailable, StorageMissing):
        return
    except MtError as error:
        verification.record(RunStatus.SKIPPED, str(error))
        log.warning("%s was not checked: %s", table.identifier, error, extra={"action": "check_failed"})
        return
    if verified.equal:
        results.append(f"{table.identifier} has the rows of its query: {verified.certificate.reason}")
        return
    if not in_transaction(services.registry, lambda tx: _compute_again(services, tx, table, verified)):
        return
    services.signal.set()
    follows = (
        "Each refresh recomputes all its rows, instead of applying changes, "
        f"until ALTER MATERIALIZED TABLE {table.identifier} RESUME."
        if verified.foreign is None
        else f"Another writer committed snapshot {verified.foreign}; all its rows are computed again."
    )
    log.error(
        "%s has other rows than its query: %s. %s",
        table.identifier,
        verified.certificate.reason,
        follows,
        extra={"action": "rows_differ", "table": str(table.identifier)},
    )


def _compute_again(
    services: TableServices, tx: Transaction, seen: MaterializedTable, verified: VerificationResult
) -> bool:
    """Request a rebuild of a table whose rows differ and stop applying changes to it.

    If another writer has changed the table, changes are applied again after the rebuild. Returns False if the
    table's definition has changed, or if a command is in progress.
    """
    table = tx.tables.get(seen.table_id)
    if (
        table is None
        or table.intent is not None
        or fingerprint_of(table.definition) != fingerprint_of(seen.definition)
    ):
        return False
    if verified.foreign is None:
        at = f"{verified.certificate.requested_at:%Y-%m-%d %H:%M:%S} UTC"
        doubt = f"its rows differed from those of its query at {at} ({verified.certificate.reason})"
        table = tx.tables.replace(replace(table, doubt=doubt))
    services.request_rebuild(tx, table, None)
    return True
