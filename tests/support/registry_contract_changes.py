"""The contract of registries about what has changed: numbers, reads, listeners, notices and hours."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mt_core.errors import RegistryError, RevisionConflict, TableExists
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.job import JobStatus
from mt_core.model.run import RunStatus
from mt_core.tables.registry import (
    RUN_ENDED,
    Change,
    JobChange,
    Registry,
    RunChange,
    TableChange,
    Transaction,
    in_transaction,
    notice_of,
)
from tests.support.registry_facts import HOUR, NOON, a_job, a_run, a_table
from tests.support.registry_steps import all_runs, insert_runs, insert_tables, replace_run

WAIT_S = 30.0


class ChangeNumbersContract:
    """The contract for change numbers."""

    def test_every_write_of_a_table_or_run_has_a_higher_number(self, registry: Registry) -> None:
        table, run = a_table(), a_run("t-1")
        running, canceled = run.advance(RunStatus.RUNNING), run.advance(RunStatus.CANCELED)
        writes: list[Callable[[Transaction], object]] = [
            lambda tx: tx.tables.insert(table),
            lambda tx: tx.runs.insert(run),
            lambda tx: tx.tables.next_claim(table.table_id),
            lambda tx: tx.tables.replace(table),
            lambda tx: tx.runs.replace(running, expected=run),
            lambda tx: tx.runs.replace(canceled, expected=running),
            lambda tx: tx.runs.delete([run.run_id]),
            lambda tx: tx.tables.delete(table.table_id),
            lambda tx: tx.tables.insert(a_table()),
        ]

        numbers = [in_transaction(registry, _newest)]
        for write in writes:
            in_transaction(registry, write)
            numbers.append(in_transaction(registry, _newest))
        insert_tables(registry, a_table("a"), a_table("b"))
        numbers.append(in_transaction(registry, _newest))

        assert numbers == [*range(len(writes) + 1), len(writes) + 2]

    def test_what_wrote_nothing_or_was_rolled_back_has_no_number(self, registry: Registry) -> None:
        table, run = a_table(), a_run("t-1")
        insert_tables(registry, table)
        insert_runs(registry, run)
        before = in_transaction(registry, _newest)

        with registry.transaction() as tx:
            tx.tables.delete("nobody")
            tx.runs.delete(["nobody"])
            with pytest.raises(TableExists):
                tx.tables.insert(a_table())
            with pytest.raises(RevisionConflict):
                tx.runs.insert(run)
            with pytest.raises(RevisionConflict):
                tx.runs.replace(run, expected=replace(run, claim=7))
            with pytest.raises(RevisionConflict):
                tx.tables.replace(replace(table, revision=7))
        with pytest.raises(KeyError):
            _insert_and_fail(registry)

        assert in_transaction(registry, _newest) == before

    def test_the_tables_that_changed_after_a_number_are_named(self, registry: Registry) -> None:
        idle, claimed, refreshed, forgotten, dropped = (a_table(name) for name in "abcde")
        insert_tables(registry, idle, claimed, refreshed, forgotten, dropped)
        queued, old = a_run(refreshed.table_id), a_run(forgotten.table_id)
        insert_runs(registry, queued, old, a_run(idle.table_id))
        before = in_transaction(registry, _newest)

        with registry.transaction() as tx:
            tx.tables.next_claim(claimed.table_id)
            tx.runs.replace(queued.advance(RunStatus.CANCELED), expected=queued)
            tx.runs.delete([old.run_id])
            tx.tables.delete(dropped.table_id)
            last = tx.changes.newest()
            changed = tx.changes.tables_after(before)
            after_the_last_but_one = tx.changes.tables_after(last - 1)
            none = tx.changes.tables_after(last)

        wanted = {each.table_id for each in (claimed, refreshed, forgotten, dropped)}
        assert (set(changed), len(changed)) == (wanted, 4)
        assert (set(after_the_last_but_one), set(none)) == ({dropped.table_id}, set())

    def test_a_table_of_which_runs_are_deleted_again_is_named_again(self, registry: Registry) -> None:
        runs = [a_run(table_id) for table_id in ("a", "b", "a")]
        insert_runs(registry, *runs)

        with registry.transaction() as tx:
            tx.runs.delete([run.run_id for run in runs[:2]])
            first = tx.changes.newest()
            tx.runs.delete([runs[2].run_id])
            again = tx.changes.newest(), set(tx.changes.tables_after(first))

        assert again == (first + 1, {"a"})

    def test_old_deletions_are_forgotten_except_the_last_so_that_numbers_never_fall(
        self, registry: Registry
    ) -> None:
        tables = [a_table(name) for name in "abc"]
        insert_tables(registry, *tables)
        with registry.transaction() as tx:
            for table in tables:
                tx.tables.delete(table.table_id)
            now, newest = tx.now(), tx.changes.newest()

        with registry.transaction() as tx:
            tx.changes.forget(now - HOUR)
            kept = tx.changes.tables_after(0)
            tx.changes.forget(now + HOUR)
            last = tx.changes.tables_after(0), tx.changes.newest()
            tx.tables.insert(a_table())
            following = tx.changes.newest()

        assert set(kept) == {table.table_id for table in tables}
        assert (set(last[0]), last[1], following) == ({tables[2].table_id}, newest, newest + 1)


class ReadingContract:
    """The contract for reads beside transactions."""

    def test_a_read_sees_what_is_committed_and_does_not_wait_for_a_transaction(
        self, registry: Registry
    ) -> None:
        first, second = a_table("a"), a_table("b")
        insert_tables(registry, first)

        with registry.transaction() as tx, ThreadPoolExecutor(1) as pool:
            tx.tables.insert(second)
            tx.tables.replace(first)
            of_another_thread = pool.submit(_read_tables, registry).result(WAIT_S)
            of_this_thread = _read_tables(registry)
        after = _read_tables(registry)

        assert of_another_thread == of_this_thread == ["a at 0"]
        assert after == ["a at 1", "b at 0"]

    def test_all_reads_of_a_block_see_the_same_state(self, registry: Registry) -> None:
        insert_tables(registry, a_table("a"))

        with registry.reading() as read:
            before = read.tables.page(), read.changes.newest()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(insert_tables, registry, a_table("b")).result(WAIT_S)
            after = read.tables.page(), read.changes.newest()

        assert before == after
        assert len(_read_tables(registry)) == 2

    def test_a_read_cannot_write(self, registry: Registry) -> None:
        run = a_run()
        insert_runs(registry, run)
        writes: list[Callable[[Transaction], object]] = [
            lambda tx: tx.tables.insert(a_table()),
            lambda tx: tx.runs.replace(run.advance(RunStatus.CANCELED), expected=run),
            lambda tx: tx.runs.delete([run.run_id]),
            lambda tx: tx.notices.put("kind", {}),
        ]

        for write in writes:
            with registry.reading() as read, pytest.raises(RegistryError):
                write(read)

        assert (all_runs(registry), _read_tables(registry)) == ([run], [])

    def test_many_threads_read_at_once_while_a_transaction_is_open(self, registry: Registry) -> None:
        insert_tables(registry, a_table("a"))
        barrier = threading.Barrier(3)

        def read(_number: int) -> list[str]:
            with registry.reading() as tx:
                barrier.wait(WAIT_S)
                return [table.identifier.name for table in tx.tables.page()]

        with registry.transaction(), ThreadPoolExecutor(3) as pool:
            results = list(pool.map(read, range(3)))

        assert results == [["a"]] * 3

    def test_a_closed_registry_refuses_reads(self, registry: Registry) -> None:
        _read_tables(registry)
        registry.close()

        with pytest.raises(RegistryError, match="closed"), registry.reading():
            pass


class ListenerContract:
    """The contract for `on_commit`."""

    def test_a_commit_is_passed_on_once_with_what_it_wrote_in_order(self, registry: Registry) -> None:
        commits: list[tuple[Change, ...]] = []
        registry.on_commit = commits.append
        table, run, job = a_table(), a_run("t-1"), a_job()

        with registry.transaction() as tx:
            tx.tables.insert(table)
            tx.runs.insert(run)
            tx.jobs.insert(job)
            tx.tables.next_claim(table.table_id)
            assert commits == []
        with registry.transaction() as tx:
            tx.tables.named(table.identifier)
            stored = tx.tables.replace(table)
            canceled = run.advance(RunStatus.CANCELED)
            tx.runs.replace(canceled, expected=run)
            [read] = tx.jobs.open()
            ended = tx.jobs.replace(replace(read, status=JobStatus.FINISHED, finished_at=NOON))
            tx.tables.delete(table.table_id)
            tx.runs.delete([run.run_id])

        claimed = replace(table, claim=1)
        assert commits == [
            (
                TableChange(table_id=table.table_id, before=None, after=table),
                RunChange(before=None, after=run),
                JobChange(before=None, after=job),
            ),
            (
                TableChange(table_id=table.table_id, before=claimed, after=stored),
                RunChange(before=run, after=canceled),
                JobChange(before=job, after=ended),
                TableChange(table_id=table.table_id, before=stored, after=None),
            ),
        ]

    def test_a_transaction_that_wrote_nothing_failed_or_met_a_conflict_is_not_passed_on(
        self, registry: Registry
    ) -> None:
        run = a_run()
        insert_runs(registry, run)
        commits: list[tuple[Change, ...]] = []
        registry.on_commit = commits.append
        attempts: list[int] = []

        def insert_at_the_second_attempt(tx: Transaction) -> None:
            tx.tables.insert(a_table(f"attempt{len(attempts)}"))
            attempts.append(1)
            if len(attempts) == 1:
                raise RevisionConflict("again")

        with registry.transaction() as tx:
            tx.tables.page()
        with registry.reading() as read:
            read.tables.page()
        with pytest.raises(KeyError):
            _insert_and_fail(registry)
        with pytest.raises(RevisionConflict):
            replace_run(registry, replace(run, claim=9), run)
        none = list(commits)
        in_transaction(registry, insert_at_the_second_attempt)

        assert none == []
        [[change]] = commits
        assert isinstance(change, TableChange)
        assert change.after is not None
        assert change.after.identifier.name == "attempt1"


class NoticesContract:
    """The contract for the outbox."""

    def test_notices_come_oldest_first_until_they_are_deleted(self, registry: Registry) -> None:
        with registry.transaction() as tx:
            before = tx.now()
            for number in range(3):
                tx.notices.put("kind", {"n": number, "text": "é'"})

        with registry.transaction() as tx:
            count = tx.notices.count()
            first, second = tx.notices.oldest(2)
            tx.notices.delete([first.number, 99])
            tx.notices.delete([])
            rest = tx.notices.oldest(9)
            tx.notices.delete([notice.number for notice in rest])
            tx.notices.put("later", {})
            [later] = tx.notices.oldest(9)

        assert count == 3
        assert [(notice.kind, notice.body["n"]) for notice in (first, *rest)] == [
            ("kind", 0),
            ("kind", 1),
            ("kind", 2),
        ]
        assert rest[0] == second
        assert first.number < second.number < rest[1].number < later.number
        assert (first.body["text"], later.kind, first.at >= before) == ("é'", "later", True)

    def test_the_end_of_a_run_is_noticed_only_where_it_is_asked_for(self, registry: Registry) -> None:
        unasked, asked, born_ended = a_run("a"), a_run("b"), a_run("c", status=RunStatus.SKIPPED)
        insert_runs(registry, unasked, asked)
        replace_run(registry, unasked, unasked.advance(RunStatus.CANCELED))
        registry.keeps_notices = True
        running = asked.advance(RunStatus.RUNNING)

        replace_run(registry, asked, running)
        insert_runs(registry, born_ended)
        failed = running.advance(RunStatus.FAILED)
        replace_run(registry, running, failed)
        replace_run(registry, failed, replace(failed, error="more"))

        with registry.reading() as read:
            notices = read.notices.oldest(9)
        assert [(notice.kind, notice.body) for notice in notices] == [
            (RUN_ENDED, notice_of(run)) for run in (born_ended, failed)
        ]

    def test_a_notice_is_rolled_back_with_the_end_of_its_run(self, registry: Registry) -> None:
        run = a_run()
        insert_runs(registry, run)
        registry.keeps_notices = True

        def fail() -> None:
            with registry.transaction() as tx:
                tx.runs.replace(run.advance(RunStatus.CANCELED), expected=run)
                raise KeyError

        with pytest.raises(KeyError):
            fail()

        with registry.transaction() as tx:
            assert (tx.notices.oldest(9), tx.runs.get(run.run_id)) == ([], run)


class FreshnessContract:
    """The contract for hours of freshness."""

    def test_parts_of_an_hour_are_merged(self, registry: Registry) -> None:
        part = FreshnessHour(
            table_id="t", hour=NOON, worst_s=90.5, late_s=30.5, fault="QUEUE", batches=2, rows=2**40, failed=1
        )
        parts = [
            part,
            replace(part, worst_s=10.0, late_s=1.0, fault=None, batches=1, rows=5, failed=0),
            replace(part, worst_s=95.0, fault="QUERY"),
        ]

        with registry.transaction() as tx:
            for each in parts:
                tx.freshness.add(each)
        with registry.reading() as read:
            stored = read.freshness.of("t", NOON)

        rows = 2 * 2**40 + 5
        assert stored == [
            replace(part, worst_s=95.0, late_s=62.0, fault="QUERY", batches=5, rows=rows, failed=2)
        ]

    def test_the_hours_of_a_table_come_oldest_first_until_they_are_forgotten(
        self, registry: Registry
    ) -> None:
        hour = FreshnessHour(
            table_id="t", hour=NOON, worst_s=0.0, late_s=0.0, fault=None, batches=0, rows=0, failed=0
        )
        hours = [replace(hour, hour=NOON + n * HOUR) for n in range(4)]
        with registry.transaction() as tx:
            for each in (*reversed(hours), replace(hour, table_id="other")):
                tx.freshness.add(each)

        with registry.transaction() as tx:
            since = tx.freshness.of("t", NOON + HOUR)
            tx.freshness.forget(NOON + 2 * HOUR)
            rest = tx.freshness.of("t", NOON), tx.freshness.of("other", NOON)

        assert since == hours[1:]
        assert rest == (hours[2:], [])


class ChangesContract(
    ChangeNumbersContract, ReadingContract, ListenerContract, NoticesContract, FreshnessContract
):
    """The whole contract for what has changed."""


def _newest(tx: Transaction) -> int:
    return tx.changes.newest()


def _insert_and_fail(registry: Registry) -> None:
    with registry.transaction() as tx:
        tx.tables.insert(a_table("lost"))
        tx.runs.insert(a_run())
        raise KeyError


def _read_tables(registry: Registry) -> list[str]:
    with registry.reading() as read:
        return [f"{table.identifier.name} at {table.revision}" for table in read.tables.page()]
