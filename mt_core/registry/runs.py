"""The run ledger, within a transaction.

The ledger grows to a million runs, while each refresh claims one of them and asks a few questions about one
table. So every question is a single statement with a matching index, and the statements are built once. Most
of the indexes are partial (only QUEUED, only RUNNING). Concurrency is controlled by the database, not by
earlier reads. Unique indexes permit one RUNNING run per table and one live run per request key, and `replace`
is a compare-and-set on status, attempt and claim. A writer that has been replaced therefore gets
RevisionConflict and changes nothing. Runs are ordered by `seq`, the order in which they were requested, which
does not depend on any clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ScalarSelect, and_, bindparam, case, delete, exists, func, or_, select, true, update

from mt_core.errors import RevisionConflict
from mt_core.model.run import REFRESHES, RefreshRun, RunKind, RunStatus
from mt_core.registry.changes import note_deletion
from mt_core.registry.rows import instant_text, row_of
from mt_core.registry.schema import GATEWAYS, NEXT_CHANGE, RUNS, TABLES, word
from mt_core.registry.statements import Statements
from mt_core.tables.registry import Backlog, RunChange

QUEUED, RUNNING, COALESCED = word(RunStatus.QUEUED), word(RunStatus.RUNNING), word(RunStatus.COALESCED)
DONE = (word(RunStatus.SUCCEEDED), word(RunStatus.SKIPPED))
SET_ASIDE = (word(RunStatus.FAILED), word(RunStatus.CANCELED))


@dataclass(frozen=True, slots=True)
class SqlRuns:
    """Implements `StoredRuns`."""

    statements: Statements

    def get(self, run_id: str) -> RefreshRun | None:
        return self.statements.fact(RefreshRun, _RUN, {"run_id": run_id})

    def insert(self, run: RefreshRun) -> None:
        if not self.statements.insert(RUNS, row_of(run)):
            raise RevisionConflict(
                f"Refresh {run.run_id} was not added: its id or request key {run.request_key!r} is already "
                f"in use, or another refresh of table {run.table_id} is RUNNING too; read the ledger again."
            )
        self.statements.changes.append(RunChange(before=None, after=run))

    def replace(self, run: RefreshRun, *, expected: RefreshRun) -> None:
        statement = _REPLACE_RUNNING if run.status is RunStatus.RUNNING else _REPLACE
        guard = {
            "its_run_id": expected.run_id,
            "its_table_id": run.table_id,
            "its_status": expected.status.value,
            "its_attempt": expected.attempt,
            "its_claim": expected.claim,
        }
        if self.statements.execute(statement, row_of(run) | guard).rowcount == 0:
            raise RevisionConflict(
                f"Refresh {run.run_id} was not stored as {run.status}: it is no longer "
                f"{expected.status} at attempt {expected.attempt} with claim {expected.claim}, "
                f"or another refresh of table {run.table_id} is RUNNING; read it again."
            )
        self.statements.changes.append(RunChange(before=expected, after=run))

    def delete(self, run_ids: Iterable[str]) -> None:
        deleted = list(run_ids)
        note_deletion(self.statements, RUNS, deleted)
        self.statements.execute(_DELETE, {"run_ids": deleted})

    def with_key(self, table_id: str, request_key: str) -> RefreshRun | None:
        return self.statements.fact(RefreshRun, _WITH_KEY, {"table_id": table_id, "request_key": request_key})

    def newest(
        self,
        *,
        table_id: str | None = None,
        statuses: Iterable[RunStatus] | None = None,
        strategy: str | None = None,
        kinds: Collection[RunKind] = REFRESHES,
        before: str | None = None,
        limit: int | None = None,
    ) -> Sequence[RefreshRun]:
        statement = select(RUNS).order_by(RUNS.c.seq.desc()).limit(limit)
        if before is not None:
            statement = statement.where(RUNS.c.seq < _place_of(before))
        if table_id is not None:
            statement = statement.where(RUNS.c.table_id == table_id)
        if strategy is not None:
            statement = statement.where(RUNS.c.strategy == strategy)
        if set(kinds) != set(RunKind):
            statement = statement.where(RUNS.c.kind.in_(sorted(kind.value for kind in kinds)))
        if statuses is not None:
            statement = statement.where(RUNS.c.status.in_(sorted(status.value for status in statuses)))
        return self.statements.facts(RefreshRun, statement)

    def newest_of_each(self, table_ids: Collection[str], *, limit: int) -> Sequence[RefreshRun]:
        statement = _NEWEST_OF_EACH[self.statements.connection.dialect.name]
        values = {"table_ids": list(table_ids), "most": limit}
        return self.statements.facts(RefreshRun, statement, values) if table_ids else []

    def oldest(self, *, after: str | None = None, limit: int) -> Sequence[RefreshRun]:
        statement = select(RUNS).order_by(RUNS.c.seq).limit(limit)
        return self.statements.facts(
            RefreshRun, statement if after is None else statement.where(RUNS.c.seq > _place_of(after))
        )

    def queued(self, table_id: str) -> Sequence[RefreshRun]:
        return self.statements.facts(RefreshRun, _QUEUED_OF_TABLE, {"table_id": table_id})

    def next_claimable(self) -> RefreshRun | None:
        return self.statements.fact(RefreshRun, _NEXT_CLAIMABLE, {"now": instant_text(self.statements.now())})

    def waiting(self) -> Sequence[RefreshRun]:
        return self.statements.facts(RefreshRun, _WAITING)

    def last_point(self, table_id: str, *, requested_by: datetime) -> datetime | None:
        values = {"table_id": table_id, "requested_by": instant_text(requested_by)}
        last: str | None = self.statements.execute(_LAST_POINT, values).scalar_one_or_none()
        return None if last is None else datetime.fromisoformat(last)

    def covering(self, table_id: str, after: datetime) -> Sequence[RefreshRun]:
        later = RUNS.c.last_point > instant_text(after)
        statement = select(RUNS).where(RUNS.c.table_id == table_id, later, RUNS.c.status.in_(DONE))
        return self.statements.facts(RefreshRun, statement.order_by(RUNS.c.seq))

    def backlog(self) -> Backlog:
        running = self.statements.execute(_RUNNING_COUNT).scalar_one()
        values = {"now": instant_text(self.statements.now())}
        rows = {bool(row.solo): row for row in self.statements.execute(_BACKLOG, values)}
        return Backlog(
            running=running,
            waiting=sum(row.waiting for row in rows.values()),
            queued={solo: row.queued for solo, row in rows.items()},
            oldest={
                solo: datetime.fromisoformat(row.oldest)
                for solo, row in rows.items()
                if row.oldest is not None
            },
        )

    def covered_by(self, run_id: str) -> Sequence[RefreshRun]:
        return self.statements.facts(RefreshRun, _COVERED_BY, {"run_id": run_id})

    def expired(self) -> Sequence[RefreshRun]:
        now = instant_text(self.statements.now())
        ended = select(GATEWAYS.c.owner).where(GATEWAYS.c.lease_until <= now)
        lapsed = or_(
            RUNS.c.lease_until.is_(None),
            RUNS.c.lease_until < now,
            RUNS.c.owner.is_(None),
            RUNS.c.owner.in_(ended),
        )
        return self.statements.facts(
            RefreshRun, select(RUNS).where(RUNS.c.status == RUNNING, lapsed).order_by(RUNS.c.seq)
        )


def _place_of(run_id: str) -> ScalarSelect[Any]:
    return select(RUNS.c.seq).where(RUNS.c.run_id == run_id).scalar_subquery()


# Statements are built once, because building one and its cache key takes longer than executing it.
_RUN = select(RUNS).where(RUNS.c.run_id == bindparam("run_id"))
_REPLACE = (
    update(RUNS)
    .where(
        RUNS.c.run_id == bindparam("its_run_id"),
        RUNS.c.status == bindparam("its_status"),
        RUNS.c.attempt == bindparam("its_attempt"),
        RUNS.c.claim == bindparam("its_claim"),
    )
    .values(changed=NEXT_CHANGE)
)
_DELETE = delete(RUNS).where(RUNS.c.run_id.in_(bindparam("run_ids", expanding=True)))
_OTHER = RUNS.alias("other")
_OTHERS = (_OTHER.c.table_id == bindparam("its_table_id"), _OTHER.c.run_id != bindparam("its_run_id"))
_REPLACE_RUNNING = _REPLACE.where(~exists().where(*_OTHERS, _OTHER.c.status == RUNNING))
_KEYED = select(RUNS).where(
    RUNS.c.table_id == bindparam("table_id"), RUNS.c.request_key == bindparam("request_key")
)
_WITH_KEY = _KEYED.order_by(RUNS.c.status.in_(SET_ASIDE), RUNS.c.seq.desc()).limit(1)
_OF_TABLE = select(RUNS).where(RUNS.c.table_id == bindparam("table_id"))
_KINDS = sorted(kind.value for kind in REFRESHES)
_THESE = TABLES.c.table_id.in_(bindparam("table_ids", expanding=True))
_NEWEST = (
    select(RUNS)
    .where(RUNS.c.table_id == TABLES.c.table_id, RUNS.c.kind.in_(_KINDS))
    .order_by(RUNS.c.seq.desc())
)
_OLDEST = _NEWEST.with_only_columns(RUNS.c.seq).limit(1).offset(bindparam("most") - 1).scalar_subquery()
_EACH = (
    select(TABLES.c.table_id, func.coalesce(_OLDEST, 0).label("oldest"))
    .where(_THESE)
    .cte("each_table")
    .prefix_with("MATERIALIZED")
)
_NEWEST_LATERAL = _NEWEST.limit(bindparam("most")).lateral("newest")
# The runs of each table are read from the end of an index; a window function would number all runs. SQLite
# has no LATERAL, so its statement first looks up the sequence number of the oldest run to return. In
# PostgreSQL that statement would compare all runs with this number.
_NEWEST_OF_EACH = {
    "sqlite": select(RUNS)
    .join(_EACH, and_(RUNS.c.table_id == _EACH.c.table_id, RUNS.c.seq >= _EACH.c.oldest))
    .where(RUNS.c.kind.in_(_KINDS))
    .order_by(RUNS.c.seq.desc()),
    "postgresql": select(_NEWEST_LATERAL)
    .select_from(TABLES.join(_NEWEST_LATERAL, true()))
    .where(_THESE)
    .order_by(_NEWEST_LATERAL.c.seq.desc()),
}
_QUEUED_OF_TABLE = _OF_TABLE.where(RUNS.c.status == QUEUED).order_by(RUNS.c.seq)
_COVERED = select(RUNS).where(RUNS.c.covered_by == bindparam("run_id"), RUNS.c.status == COALESCED)
_COVERED_BY = _COVERED.order_by(RUNS.c.seq)
# NOT IN, so that the busy and exclusive tables are collected once instead of for each queued run.
_BUSY = select(_OTHER.c.table_id).where(_OTHER.c.status == RUNNING)
_EXCLUSIVE = select(TABLES.c.table_id).where(TABLES.c.exclusive)
_NOT_WAITING = or_(RUNS.c.waits_until.is_(None), RUNS.c.waits_until <= bindparam("now"))
_CLAIMABLE = and_(_NOT_WAITING, RUNS.c.table_id.not_in(_BUSY), RUNS.c.table_id.not_in(_EXCLUSIVE))
_NEXT_CLAIMABLE = (
    select(RUNS).where(RUNS.c.status == QUEUED, _CLAIMABLE).order_by(RUNS.c.solo, RUNS.c.seq).limit(1)
)
_RUNNING_COUNT = select(func.count()).select_from(RUNS).where(RUNS.c.status == RUNNING)
_BACKLOG = (
    select(
        RUNS.c.solo,
        func.count().label("queued"),
        func.sum(case((_NOT_WAITING, 0), else_=1)).label("waiting"),
        func.min(case((_CLAIMABLE, RUNS.c.requested_at))).label("oldest"),
    )
    .where(RUNS.c.status == QUEUED)
    .group_by(RUNS.c.solo)
)
_WAITING = select(RUNS).where(RUNS.c.status == QUEUED, RUNS.c.waits_until.is_not(None)).order_by(RUNS.c.seq)
_LAST_POINT = (
    select(RUNS.c.last_point)
    .where(RUNS.c.table_id == bindparam("table_id"), RUNS.c.last_point.is_not(None))
    .where(RUNS.c.requested_at <= bindparam("requested_by"))
    .order_by(RUNS.c.last_point.desc())
    .limit(1)
)
