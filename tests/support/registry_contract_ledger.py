"""The contract of registries about runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import RegistryError, RevisionConflict
from mt_core.model.gateway import GatewayLease
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.tables.registry import Backlog, Registry
from tests.support.registry_facts import HOUR, NOON, a_run, a_table, an_intent
from tests.support.registry_steps import (
    all_runs,
    claimable,
    insert_runs,
    insert_tables,
    keyed,
    replace_run,
)


class LedgerContract:
    """The contract for runs."""

    def test_a_run_is_found_exactly_as_it_was_put(self, registry: Registry) -> None:
        bare = a_run()
        full = a_run(
            kind=RunKind.PERIODIC,
            scope=Scope.of(
                [PartitionSpec.of({"ds": "2026-03-01", "hh": "12"}), PartitionSpec.of({"ds": "x"})]
            ),
            request_key="k",
            schedule_time=NOON,
            points=(NOON - HOUR, NOON),
            rest=(NOON,),
            solo=True,
            request="PERIODIC at noon",
            options={"a": "b"},
            status=RunStatus.RUNNING,
            attempt=2,
            claim=9,
            owner="g1",
            lease_until=NOON + timedelta(microseconds=1),
            waits_until=NOON + HOUR,
            waits_for={"t-2": "lake.sales.a at 2026-03-01 12:00:00"},
            cancel_requested=True,
            vector=(
                {"name": "s", "kind": "table", "version": {"snapshot": "1"}},
                {"name": "f", "version": None},
            ),
            pinned=False,
            started_at=NOON,
            rows=0,
            strategy="recompute",
            rows_inserted=2**40,
            rows_deleted=0,
            bytes_read=2**50,
            error="it broke",
        )
        insert_runs(registry, bare, full)

        with registry.transaction() as transaction:
            found = (
                transaction.runs.get(bare.run_id),
                transaction.runs.get(full.run_id),
                transaction.runs.get("nobody"),
            )

        assert found == (bare, full, None)

    def test_runs_come_newest_request_first_and_can_be_chosen(self, registry: Registry) -> None:
        first, second, third = (
            a_run("a"),
            a_run("b", status=RunStatus.FAILED),
            a_run("a", status=RunStatus.SUCCEEDED, requested_at=NOON - HOUR),
        )
        insert_runs(registry, first, second, third)

        with registry.transaction() as transaction:
            assert transaction.runs.newest() == [third, second, first]
            assert transaction.runs.newest(table_id="a") == [third, first]
            assert transaction.runs.newest(table_id="a", limit=1) == [third]
            assert transaction.runs.newest(statuses=[RunStatus.FAILED, RunStatus.QUEUED]) == [second, first]
            assert transaction.runs.newest(statuses=iter([RunStatus.FAILED]), table_id="a") == []
            assert transaction.runs.newest(statuses=[]) == []

    def test_the_newest_refreshes_of_many_tables_are_found_at_once(self, registry: Registry) -> None:
        tables = {name: a_table(name) for name in ("a", "b", "idle", "other")}
        insert_tables(registry, *tables.values())
        ids = {name: table.table_id for name, table in tables.items()}
        runs = [
            a_run(ids[name], status=RunStatus.SUCCEEDED) for name in ("a", "b", "a", "other", "a", "b", "b")
        ]
        verification = a_run(ids["a"], kind=RunKind.VERIFY, status=RunStatus.SUCCEEDED)
        insert_runs(registry, *runs, verification)

        with registry.transaction() as transaction:
            found = transaction.runs.newest_of_each([ids["a"], ids["b"], ids["idle"], "dropped"], limit=2)
            more = transaction.runs.newest_of_each([ids["a"]], limit=100)
            none = transaction.runs.newest_of_each([], limit=2)

        assert found == [runs[6], runs[5], runs[4], runs[2]]
        assert (more, none) == ([runs[4], runs[2], runs[0]], [])

    def test_a_verification_is_among_the_runs_only_if_its_kind_is_asked_for(self, registry: Registry) -> None:
        refresh, verification = a_run("a"), a_run("a", kind=RunKind.VERIFY, status=RunStatus.SUCCEEDED)
        insert_runs(registry, refresh, verification)

        with registry.transaction() as transaction:
            assert transaction.runs.newest(table_id="a") == [refresh]
            assert transaction.runs.newest(kinds=[RunKind.VERIFY]) == [verification]
            assert transaction.runs.newest(table_id="a", kinds=tuple(RunKind)) == [verification, refresh]
            assert transaction.runs.oldest(limit=9) == [refresh, verification]

    def test_the_runs_of_a_table_by_one_strategy_can_be_chosen(self, registry: Registry) -> None:
        done = RunStatus.SUCCEEDED
        first, second, third, fourth = (
            a_run("a", status=done, strategy="append"),
            a_run("a", status=done, strategy="recompute"),
            a_run("a", status=done, strategy="append"),
            a_run("b", status=done, strategy="append"),
        )
        insert_runs(registry, first, second, third, fourth, a_run("a"))

        with registry.transaction() as transaction:
            assert transaction.runs.newest(table_id="a", strategy="append") == [third, first]
            assert transaction.runs.newest(table_id="a", strategy="append", statuses=[done], limit=1) == [
                third
            ]
            assert transaction.runs.newest(table_id="a", strategy="keys") == []

    def test_queued_runs_of_a_table_come_oldest_first(self, registry: Registry) -> None:
        first, second = a_run("a"), a_run("a", requested_at=NOON - HOUR)
        insert_runs(registry, first, a_run("b"), a_run("a", status=RunStatus.CANCELED), second)

        with registry.transaction() as transaction:
            assert transaction.runs.queued("a") == [first, second]

    def test_the_oldest_run_whose_table_is_free_can_be_claimed(self, registry: Registry) -> None:
        altered, refreshed = a_table("altered", intent=an_intent("ALTER")), a_table("refreshed")
        suspending = a_table("suspending", intent=an_intent("SUSPEND"))
        held, waiting = a_run(altered.table_id), a_run(refreshed.table_id)
        running = a_run(refreshed.table_id, status=RunStatus.RUNNING)
        free, later = a_run(suspending.table_id), a_run("dropped")
        insert_tables(registry, altered, refreshed, suspending)
        insert_runs(registry, held, waiting, running, free, later)

        assert claimable(registry) == free

        replace_run(registry, free, free.advance(RunStatus.CANCELED))
        assert claimable(registry) == later

        replace_run(registry, running, running.advance(RunStatus.SUCCEEDED))
        assert claimable(registry) == waiting

        with registry.transaction() as transaction:
            transaction.tables.replace(replace(altered, intent=None))
        assert claimable(registry) == held

    def test_nothing_can_be_claimed_from_an_empty_ledger(self, registry: Registry) -> None:
        assert claimable(registry) is None

    @pytest.mark.parametrize("change", [{"status": RunStatus.FAILED}, {"attempt": 2}, {"claim": 7}])
    def test_a_run_that_changed_meanwhile_is_not_replaced(
        self, registry: Registry, change: dict[str, object]
    ) -> None:
        run = a_run(status=RunStatus.RUNNING, claim=1)
        insert_runs(registry, run)
        expected = replace(run, **change)  # type: ignore[arg-type]

        with registry.transaction() as transaction, pytest.raises(RevisionConflict, match=run.run_id):
            transaction.runs.replace(replace(run, status=RunStatus.SUCCEEDED), expected=expected)

        assert all_runs(registry) == [run]

    def test_a_replaced_run_keeps_its_place(self, registry: Registry) -> None:
        first, second = a_run(), a_run()
        insert_runs(registry, first, second)
        running = first.advance(RunStatus.RUNNING, claim=1, owner="g1", lease_until=NOON)
        again = running.advance(RunStatus.QUEUED, attempt=2, owner=None, lease_until=None)

        replace_run(registry, first, running)
        replace_run(registry, running, again)

        assert all_runs(registry) == [second, again]
        assert claimable(registry) == again

    def test_a_second_running_run_of_a_table_is_refused_and_the_transaction_goes_on(
        self, registry: Registry
    ) -> None:
        running, waiting = a_run("a", status=RunStatus.RUNNING), a_run("a")
        elsewhere, late = a_run("b"), a_run("a", status=RunStatus.RUNNING)
        insert_runs(registry, running, waiting, elsewhere)

        with registry.transaction() as transaction:
            with pytest.raises(RevisionConflict, match="RUNNING"):
                transaction.runs.replace(waiting.advance(RunStatus.RUNNING), expected=waiting)
            with pytest.raises(RevisionConflict, match="RUNNING"):
                transaction.runs.insert(late)
            transaction.runs.replace(elsewhere.advance(RunStatus.RUNNING), expected=elsewhere)
            transaction.runs.replace(replace(running, owner="g2"), expected=running)

        assert all_runs(registry) == [
            elsewhere.advance(RunStatus.RUNNING),
            waiting,
            replace(running, owner="g2"),
        ]

    def test_a_request_key_belongs_to_its_table(self, registry: Registry) -> None:
        ours, theirs = a_run(request_key="k"), a_run("other", request_key="k")
        insert_runs(registry, ours, theirs)

        with registry.transaction() as transaction:
            assert (transaction.runs.with_key("t-1", "k"), transaction.runs.with_key("other", "k")) == (
                ours,
                theirs,
            )

    def test_runs_of_single_points_are_claimed_when_nothing_else_waits(self, registry: Registry) -> None:
        solo, later = a_run("a", solo=True), a_run("b")
        insert_runs(registry, solo, later)

        assert claimable(registry) == later

        replace_run(registry, later, later.advance(RunStatus.CANCELED))
        assert claimable(registry) == solo

    def test_a_run_that_waits_is_claimed_when_its_wait_is_over(self, registry: Registry) -> None:
        with registry.transaction() as transaction:
            now = transaction.now()
        waiting, over = a_run("a", waits_until=now + HOUR), a_run("b", waits_until=now)
        ended = a_run("c", waits_until=now + HOUR, status=RunStatus.CANCELED)
        insert_runs(registry, waiting, ended, over)

        assert claimable(registry) == over
        with registry.transaction() as transaction:
            assert transaction.runs.waiting() == [waiting, over]

        replace_run(registry, over, over.advance(RunStatus.RUNNING))
        assert claimable(registry) is None

        woken = replace(waiting, waits_until=None)
        replace_run(registry, waiting, woken)
        assert claimable(registry) == woken
        with registry.transaction() as transaction:
            assert transaction.runs.waiting() == []

    def test_the_backlog_counts_open_runs_and_has_the_oldest_that_could_be_claimed(
        self, registry: Registry
    ) -> None:
        with registry.transaction() as transaction:
            now = transaction.now()
        busy = a_run("busy", status=RunStatus.RUNNING)
        behind = a_run("busy", requested_at=now - HOUR * 5)
        waiting = a_run("waits", requested_at=now - HOUR * 4, waits_until=now + HOUR)
        altered = a_table("altered", intent=an_intent("ALTER"))
        held = a_run(altered.table_id, requested_at=now - HOUR * 3)
        free, over = a_run("free", requested_at=now), a_run("over", requested_at=now - HOUR, waits_until=now)
        solo, ended = a_run("free", solo=True, requested_at=now - HOUR), a_run("x", status=RunStatus.FAILED)
        insert_tables(registry, altered)

        with registry.reading() as reading:
            empty = reading.runs.backlog()
        insert_runs(registry, busy, behind, waiting, held, free, over, solo, ended)
        with registry.reading() as reading:
            backlog = reading.runs.backlog()

        assert empty == Backlog(running=0, waiting=0, queued={}, oldest={})
        assert backlog == Backlog(
            running=1,
            waiting=1,
            queued={False: 5, True: 1},
            oldest={False: now - HOUR, True: now - HOUR},
        )

    def test_the_last_point_of_a_table_is_that_of_any_of_its_runs_requested_by_then(
        self, registry: Registry
    ) -> None:
        insert_runs(
            registry,
            a_run("a", points=(NOON, NOON + HOUR), status=RunStatus.FAILED),
            a_run("a", points=(NOON - HOUR,)),
            a_run("b", points=(NOON + HOUR * 2,)),
            a_run("c"),
            a_run("b", points=(NOON + HOUR * 4,), requested_at=NOON + HOUR * 4),
        )

        with registry.transaction() as transaction:
            last = {
                table_id: transaction.runs.last_point(table_id, requested_by=NOON + HOUR * 3)
                for table_id in "abcd"
            }

        assert last == {"a": NOON + HOUR, "b": NOON + HOUR * 2, "c": None, "d": None}

    def test_runs_are_read_in_pages_from_both_ends(self, registry: Registry) -> None:
        first, second, third = (a_run(), a_run("other"), a_run())
        insert_runs(registry, first, second, third)

        with registry.transaction() as transaction:
            assert transaction.runs.newest(before=third.run_id, limit=1) == [second]
            assert transaction.runs.newest(before=third.run_id, table_id="t-1") == [first]
            assert transaction.runs.newest(before="gone") == []
            assert transaction.runs.oldest(limit=2) == [first, second]
            assert transaction.runs.oldest(after=first.run_id, limit=9) == [second, third]
            assert transaction.runs.oldest(after="gone", limit=9) == []

    def test_deleted_runs_are_gone_and_the_others_stay(self, registry: Registry) -> None:
        first, second = a_run(request_key="k"), a_run()
        insert_runs(registry, first, second)

        with registry.transaction() as transaction:
            transaction.runs.delete([first.run_id, "gone"])

        assert all_runs(registry) == [second]
        assert keyed(registry) is None

    def test_a_taken_request_key_or_run_id_is_refused_and_the_transaction_goes_on(
        self, registry: Registry
    ) -> None:
        run, unkeyed = a_run(request_key="k"), a_run()

        with registry.transaction() as transaction:
            transaction.runs.insert(run)
            with pytest.raises(RevisionConflict, match="'k'"):
                transaction.runs.insert(a_run(request_key="k"))
            with pytest.raises(RevisionConflict, match=run.run_id):
                transaction.runs.insert(replace(run, request_key=None))
            transaction.runs.insert(unkeyed)

        assert all_runs(registry) == [unkeyed, run]

    @pytest.mark.parametrize("ended", [RunStatus.FAILED, RunStatus.CANCELED])
    def test_a_request_key_is_free_again_after_failure_and_cancel(
        self, registry: Registry, ended: RunStatus
    ) -> None:
        older, newer = a_run(request_key="k", status=ended), a_run(request_key="k", status=ended)
        retry = a_run(request_key="k", retry_of=newer.run_id)
        insert_runs(registry, older, newer)

        assert keyed(registry) == newer

        insert_runs(registry, retry)
        assert keyed(registry) == retry

        failed = a_run(request_key="k", status=RunStatus.FAILED)
        insert_runs(registry, failed)
        assert keyed(registry) == retry

    def test_an_unknown_request_key_has_no_run(self, registry: Registry) -> None:
        insert_runs(registry, a_run())

        assert keyed(registry) is None

    def test_covering_runs_are_those_done_with_a_later_latest_point(self, registry: Registry) -> None:
        def run(status: RunStatus, *points: int, table_id: str = "a") -> RefreshRun:
            return a_run(table_id, status=status, points=tuple(NOON + HOUR * point for point in points))

        reaching, skipped = run(RunStatus.SUCCEEDED, 2, -1), run(RunStatus.SKIPPED, 1)
        others = [
            run(RunStatus.SUCCEEDED, 0),
            run(RunStatus.SUCCEEDED),
            run(RunStatus.FAILED, 3),
            run(RunStatus.QUEUED, 3),
            run(RunStatus.SUCCEEDED, 3, table_id="b"),
        ]
        insert_runs(registry, reaching, *others, skipped)

        with registry.transaction() as transaction:
            assert transaction.runs.covering("a", NOON) == [reaching, skipped]

    def test_covered_runs_are_the_coalesced_ones(self, registry: Registry) -> None:
        covering = a_run()
        covered = a_run(status=RunStatus.COALESCED, covered_by=covering.run_id)
        canceled = a_run(status=RunStatus.CANCELED, covered_by=covering.run_id)
        insert_runs(registry, covering, covered, canceled, a_run(status=RunStatus.COALESCED, covered_by="x"))

        with registry.transaction() as transaction:
            assert transaction.runs.covered_by(covering.run_id) == [covered]

    def test_expired_runs_have_a_lapsed_lease_or_an_owner_whose_own_has_lapsed(
        self, registry: Registry
    ) -> None:
        with registry.transaction() as transaction:
            now = transaction.now()

        def run(table_id: str, owner: str | None, lease: timedelta | None) -> RefreshRun:
            lease_until = None if lease is None else now + lease
            return a_run(table_id, status=RunStatus.RUNNING, owner=owner, lease_until=lease_until)

        lapsed, orphaned = run("a", "g1", -HOUR), run("b", "ended", HOUR)
        ownerless, unleased = run("c", None, HOUR), run("d", "g1", None)
        alive, queued = run("e", "g1", HOUR), a_run("f", owner="ended", lease_until=now - HOUR)
        unknown = run("g", "without a lease", HOUR)
        insert_runs(registry, lapsed, orphaned, ownerless, unleased, alive, queued, unknown)
        with registry.transaction() as transaction:
            transaction.gateways.put(GatewayLease(owner="g1", lease_until=now + HOUR))
            transaction.gateways.put(GatewayLease(owner="ended", lease_until=now))

        with registry.transaction() as transaction:
            assert transaction.runs.expired() == [lapsed, orphaned, ownerless, unleased]

    def test_an_instant_without_a_zone_is_refused(self, registry: Registry) -> None:
        with registry.transaction() as transaction, pytest.raises(RegistryError, match="zone"):
            transaction.runs.insert(a_run(requested_at=NOON.replace(tzinfo=None)))

        assert all_runs(registry) == []
