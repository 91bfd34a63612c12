"""The log of refreshes: a listener that logs how each attempt of a worker ended, and failed batches."""

from __future__ import annotations

import logging
from functools import lru_cache

from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.tables.events import BatchPublished, Fact, RunClaimed, RunEnded, RunReturned
from mt_core.tables.registry import Registry
from mt_core.tables.repeated_errors import RepeatedErrors

log = logging.getLogger(__name__)
_MOST_NAMES = 10_000


class RefreshLog:
    """Logs the facts about runs that are of interest to an administrator.

    A repeated error is logged in full once, and then counted. Runs that no worker claimed are not logged.
    """

    def __init__(self, registry: Registry, errors: RepeatedErrors) -> None:
        self._registry, self._errors = registry, errors
        self._name_of = lru_cache(maxsize=_MOST_NAMES)(self._read_name)

    def __call__(self, fact: Fact, /) -> None:
        match fact:
            case RunClaimed(run=run):
                # A table may be dropped before its run ends.
                self._name_of(run.table_id)
            case BatchPublished(run=run):
                self._errors.forget(self._name_of(run.table_id))
            case RunEnded(run=run) | RunReturned(run=run) if run.claim:
                self._log_end(run, self._name_of(run.table_id))
            case _:
                pass

    def _log_end(self, run: RefreshRun, table: str) -> None:
        # A run without a vector has had no successful batch.
        if run.status is not RunStatus.FAILED or (run.kind is RunKind.CONTINUOUS and run.vector is not None):
            self._errors.forget(table)
        failed, facts = run.status is RunStatus.FAILED, {"table": table, "run": run.run_id}
        outcome = self._errors.text(table, run.error) if failed else run.why
        if run.kind is not RunKind.CONTINUOUS:
            level, facts = logging.WARNING if failed else logging.INFO, {"action": "refresh_ended", **facts}
            log.log(level, "refresh of %s %s: %s", table, run.status, outcome, extra=facts)
        elif failed:
            log.warning("refresh of %s failed: %s", table, outcome, extra={"action": "batch_failed", **facts})

    def _read_name(self, table_id: str) -> str:
        with self._registry.reading() as tx:
            table = tx.tables.get(table_id)
            return table_id if table is None else str(table.identifier)
