"""Verification of a table: compares its rows with those of its query at the recorded source versions.

Every snapshot of a refresh records the source vector from which it was computed. So a table can be checked at
any time without stopping its refreshes: its rows must equal those of its query at the recorded versions. In a
table with partitions, shares of the rows have different vectors, and each share is compared separately. Rows
of other writers, rows of an earlier definition and rows from sources without versions cannot be compared.

The outcome is a certificate, a run of kind VERIFY in the ledger. If a complete comparison finds that
partitions in doubt are equal, they are no longer in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mt_core.base.plural import plural
from mt_core.base.rowset import RowSet
from mt_core.errors import Incomparable
from mt_core.model.partition import WHOLE, Scope
from mt_core.model.run import ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.model.storage import StorageMetadata
from mt_core.model.table import MaterializedTable
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import Comparison, ComparisonResult
from mt_core.tables.refresh.late_data import LateRowsRecord, recorded_late_rows
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices, query_of
from mt_core.tables.verification.shares import Share, foreign_commit, shares_of, with_doubted

MOST_DIFFERENCES = 1000
SAMPLE = "sample"
_CODES = {
    RunStatus.SUCCEEDED: ReasonCode.ROWS_EQUAL,
    RunStatus.FAILED: ReasonCode.ROWS_DIFFER,
    RunStatus.SKIPPED: ReasonCode.ROWS_NOT_COMPARED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationResult:
    """The result of a verification.

    `differences` contains up to `MOST_DIFFERENCES` differing rows, and `certificate` is its run in the
    ledger. `foreign` is the id of the last snapshot that changed rows if another writer committed it, else
    None.
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
    """One comparison of a table with its query: of *percent* of its keys, or of hash sums over buckets."""

    services: TableServices
    table: MaterializedTable
    job_id: str
    percent: float = 100.0
    in_buckets: bool = False
    requested_by: str | None = None

    def run(self) -> VerificationResult:
        """Compare and record the outcome; raise Incomparable, which is not recorded.

        Refreshes continue, because the comparison reads one snapshot of the table and holds no lock.
        """
        registry, engine, identifier = self.services.registry, self.services.engine, self.table.identifier
        began_at = in_transaction(registry, lambda tx: tx.now())
        metadata = engine.metadata.load(identifier)
        shares = self._shares(metadata)
        if metadata.main is None:
            raise Incomparable(f"{identifier} has no rows yet.", table=str(identifier))
        outcomes = [self._compared(share, metadata.main) for share in shares]
        done = [
            (share, each)
            for share, each in zip(shares, outcomes, strict=True)
            if isinstance(each, ComparisonResult)
        ]
        left_out = [
            (share, each)
            for share, each in zip(shares, outcomes, strict=True)
            if isinstance(each, Incomparable)
        ]
        if not done:
            raise left_out[0][1]
        compared, parts = [each for _, each in done], [share for share, _ in done]
        different = sum(each.different for each in compared)
        foreign = foreign_commit(engine.metadata.ancestors(metadata))
        certificate = self.record(
            RunStatus.FAILED if different else RunStatus.SUCCEEDED,
            self._outcome(parts, compared, different) + _left_out_text([share for share, _ in left_out]),
            scope=_union(parts),
            requested_at=began_at,
            vector=parts[0].vector.to_json() if len(parts) == 1 else None,
            snapshot_id=metadata.main,
            rows=sum(each.rows for each in compared),
        )
        if self.percent >= 100 and any(share.doubted and not each.different for share, each in done):
            self._clear(metadata.main)
        return VerificationResult(
            differences=_together(compared),
            certificate=certificate,
            warnings=(
                *_warnings(compared, different, in_buckets=self.in_buckets),
                *(f"Not compared: {share}. {error.message}" for share, error in left_out),
            ),
            foreign=foreign,
        )

    def _shares(self, metadata: StorageMetadata) -> tuple[Share, ...]:
        history, table = self.services.engine.metadata.ancestors, self.table
        shares = shares_of(table.identifier, history(metadata), fingerprint_of(table.definition))
        known = recorded_late_rows(history(metadata), table.cleared)
        if not isinstance(known, LateRowsRecord):
            return shares
        return with_doubted(shares, known.doubted_now, known.sources, known.behind)

    def _clear(self, snapshot_id: str) -> None:
        """Record that no partition is in doubt at the snapshot *snapshot_id*."""

        def clear(tx: Transaction) -> None:
            now = tx.tables.get(self.table.table_id)
            if now is not None and fingerprint_of(now.definition) == fingerprint_of(self.table.definition):
                # A refresh that has ended in the meantime may have recorded a newer doubt.
                doubted = None if now.doubted == self.table.doubted else now.doubted
                tx.tables.replace(replace(now, cleared=snapshot_id, doubted=doubted))

        in_transaction(self.services.registry, clear)

    def record(self, status: RunStatus, reason: str, **facts: Any) -> RefreshRun:
        """Insert the outcome into the ledger as a run that has ended and return it.

        Because the run has already ended, no refresh waits for it.
        """

        def insert(tx: Transaction) -> RefreshRun:
            begun = facts.get("requested_at", tx.now())
            certificate = RefreshRun(
                run_id=self.services.new_id(),
                table_id=self.table.table_id,
                kind=RunKind.VERIFY,
                status=status,
                reason=reason,
                reason_code=_CODES[status],
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

    def _compared(self, share: Share, snapshot_id: str) -> ComparisonResult | Incomparable:
        """Return the result of comparing a share, or the reason why its rows cannot be compared."""
        if share.obstacle is not None:
            return Incomparable(share.obstacle, table=str(self.table.identifier))
        try:
            return self._compare(share, snapshot_id)
        except Incomparable as error:
            return error

    def _compare(self, share: Share, snapshot_id: str) -> ComparisonResult:
        definition = self.table.definition
        return self.services.engine.comparisons.compare(
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

    def _outcome(self, shares: Sequence[Share], compared: Sequence[ComparisonResult], different: int) -> str:
        """Return the result of the comparison, as SHOW REFRESHES shows it."""
        rows = sum(each.rows for each in compared)
        versions = {(source.name, str(source.version)) for share in shares for source in share.vector.sources}
        at = f"{_count(rows, 'row')} at {_count(len(versions), 'source version')}"
        if different:
            result = (
                f"{_count(different, 'bucket' if self.in_buckets else 'row')} "
                f"differ{'' if different > 1 else 's'}"
            )
        else:
            result = "equal"
        specs = sum(len(share.scope.specs or ()) for share in shares)
        parts = [f" in {_count(specs, 'partition')}"] if specs else []
        if self.percent < 100:
            parts.append(f", a sample of {self.percent:g} percent")
        if self.in_buckets:
            parts.append(", compared by hash sums")
        left_out = sorted({name for each in compared for name in each.left_out})
        if left_out:
            parts.append(f", without {', '.join(left_out)}")
        return f"{result}, {at}{''.join(parts)}"


def _left_out_text(shares: Sequence[Share]) -> str:
    return "".join(f"; {share} not compared" for share in shares)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {plural(number, noun)}"


def _union(shares: Sequence[Share]) -> Scope:
    scope = shares[0].scope
    for share in shares[1:]:
        scope = scope.union(share.scope)
    return scope


def _together(compared: Sequence[ComparisonResult]) -> RowSet:
    rows = [row for each in compared for row in each.differences.rows]
    return RowSet(columns=compared[0].differences.columns, rows=rows[:MOST_DIFFERENCES])


def _warnings(compared: Sequence[ComparisonResult], different: int, *, in_buckets: bool) -> tuple[str, ...]:
    left_out = {name: reason for each in compared for name, reason in each.left_out.items()}
    warnings = [f"Column {name} was not compared: {reason}." for name, reason in sorted(left_out.items())]
    shown = sum(len(each.differences.rows) for each in compared)
    if not in_buckets and shown > MOST_DIFFERENCES:
        warnings.append(f"Only {MOST_DIFFERENCES:,} of the rows that differ are shown; {different:,} differ.")
    return tuple(warnings)
