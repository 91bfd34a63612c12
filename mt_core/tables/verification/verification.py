"""Verification of a table: its rows compared with those of its query at the versions that they show, and the certificate of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mt_core.errors import Incomparable
from mt_core.model.partition import WHOLE, Scope
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.rowset import RowSet
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import Compared, Comparison
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices, query_of
from mt_core.tables.verification.shares import Share, foreign_commit, shares_of

MOST_DIFFERENCES = 1000
SAMPLE = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a verification found: the rows that differ, at most `MOST_DIFFERENCES` of them, and its row in the ledger.

    `foreign` is the snapshot that another writer committed since the last refresh, None if none did.
    """

    differences: RowSet
    certificate: RefreshRun
    warnings: tuple[str, ...]
    foreign: str | None

    @property
    def equal(self) -> bool:
        return self.certificate.status is RunStatus.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One comparison of a table with its query; of *percent* of its keys, or of sums over buckets of keys alone."""

    services: TableServices
    table: MaterializedTable
    job_id: str
    percent: float = 100.0
    in_buckets: bool = False
    requested_by: str | None = None

    def run(self) -> Verified:
        """Compare, and record the outcome; raises Incomparable, which is not recorded.

        It reads one snapshot of the table and holds nothing: refreshes go on beside it.
        """
        registry, engine, identifier = self.services.registry, self.services.engine, self.table.identifier
        began_at = in_transaction(registry, lambda tx: tx.now())
        metadata = engine.load(identifier)
        shares = shares_of(identifier, engine.ancestors(metadata), fingerprint_of(self.table.definition))
        if metadata.main is None:
            raise Incomparable(f"{identifier} has no rows yet.", table=str(identifier))
        compared = [self._compare(share, metadata.main) for share in shares]
        different = sum(each.different for each in compared)
        foreign = foreign_commit(engine.ancestors(metadata))
        certificate = self.record(
            RunStatus.FAILED if different else RunStatus.SUCCEEDED,
            self._outcome(shares, compared, different),
            scope=_union(shares),
            requested_at=began_at,
            vector=shares[0].vector.to_json() if len(shares) == 1 else None,
            snapshot_id=metadata.main,
            rows=sum(each.rows for each in compared),
        )
        return Verified(
            differences=_together(compared),
            certificate=certificate,
            warnings=_warnings(compared, different, in_buckets=self.in_buckets),
            foreign=foreign,
        )

    def record(self, status: RunStatus, reason: str, **facts: Any) -> RefreshRun:
        """Add what came of the verification to the ledger, and return it: a run that has ended, so that no refresh waits for it."""

        def insert(tx: Transaction) -> RefreshRun:
            begun = facts.get("requested_at", tx.now())
            certificate = RefreshRun(
                run_id=self.services.new_id(),
                table_id=self.table.table_id,
                kind=RunKind.VERIFY,
                status=status,
                reason=reason,
                requested_by=self.requested_by,
                job_id=self.job_id,
                started_at=begun,
                finished_at=tx.now(),
                options={} if self.percent >= 100 else {SAMPLE: f"{self.percent:g}"},
                **{"scope": WHOLE, "requested_at": begun, **facts},
            )
            tx.runs.insert(certificate)
            return certificate

        return in_transaction(self.services.registry, insert)

    def _compare(self, share: Share, snapshot_id: str) -> Compared:
        definition = self.table.definition
        return self.services.engine.compare(
            Comparison(
                job_id=self.job_id,
                table=self.table.identifier,
                snapshot_id=snapshot_id,
                query=query_of(definition),
                columns=definition.columns,
                vector=share.vector,
                scope=share.scope,
                besides=share.besides,
                percent=self.percent,
                in_buckets=self.in_buckets,
                most=MOST_DIFFERENCES,
                query_types=definition.query_types,
            )
        )

    def _outcome(self, shares: Sequence[Share], compared: Sequence[Compared], different: int) -> str:
        """Return what the comparison found, as SHOW REFRESHES has it."""
        rows = sum(each.rows for each in compared)
        versions = {(source.name, str(source.version)) for share in shares for source in share.vector.sources}
        at = f"{_count(rows, 'row')} at {_count(len(versions), 'source version')}"
        if different:
            found = f"{_count(different, 'bucket' if self.in_buckets else 'row')} differ{'' if different > 1 else 's'}"
        else:
            found = "equal"
        specs = sum(len(share.scope.specs or ()) for share in shares)
        parts = [f" in {_count(specs, 'partition')}"] if specs else []
        if self.percent < 100:
            parts.append(f", a sample of {self.percent:g} percent")
        if self.in_buckets:
            parts.append(", compared by hash sums")
        left_out = sorted({name for each in compared for name in each.left_out})
        if left_out:
            parts.append(f", without {', '.join(left_out)}")
        return f"{found}, {at}{''.join(parts)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _union(shares: Sequence[Share]) -> Scope:
    scope = shares[0].scope
    for share in shares[1:]:
        scope = scope.union(share.scope)
    return scope


def _together(compared: Sequence[Compared]) -> RowSet:
    rows = [row for each in compared for row in each.differences.rows]
    return RowSet(columns=compared[0].differences.columns, rows=rows[:MOST_DIFFERENCES])


def _warnings(compared: Sequence[Compared], different: int, *, in_buckets: bool) -> tuple[str, ...]:
    left_out = {name: reason for each in compared for name, reason in each.left_out.items()}
    warnings = [f"Column {name} was not compared: {reason}." for name, reason in sorted(left_out.items())]
    shown = sum(len(each.differences.rows) for each in compared)
    if not in_buckets and shown > MOST_DIFFERENCES:
        warnings.append(f"Only {MOST_DIFFERENCES:,} of the rows that differ are shown; {different:,} differ.")
    return tuple(warnings)
