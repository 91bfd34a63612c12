"""The contract of registries about transactions and threads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from mt_core.errors import RegistryError, TableExists
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.tables.registry import Registry, Tombstone, each_row
from tests.support.registry_facts import NOON, a_definition, a_run, a_table
from tests.support.registry_steps import (
    THREADS,
    all_runs,
    all_tables,
    at_once,
    insert_runs,
    insert_tables,
)


class TransactionsContract:
    """The contract for transactions."""

    def test_an_exception_undoes_everything_and_comes_through(self, registry: Registry) -> None:
        table, run = a_table(), a_run()
        insert_tables(registry, table)
        insert_runs(registry, run)
        boom = KeyError("boom")

        def fail() -> None:
            with registry.transaction() as transaction:
                transaction.tables.insert(a_table("other"))
                transaction.tables.next_claim(table.table_id)
                transaction.tables.replace(replace(table, handler="new"))
                transaction.runs.insert(a_run())
                transaction.runs.replace(run.advance(RunStatus.CANCELED), expected=run)
                transaction.tombstones.put(
                    Tombstone(
                        table_id="1", identifier=table.identifier, location="", handler=None, dropped_at=NOON
                    )
                )
                raise boom

        with pytest.raises(KeyError) as caught:
            fail()

        assert caught.value is boom
        assert all_tables(registry) == [table]
        assert all_runs(registry) == [run]
        with registry.transaction() as transaction:
            assert transaction.tombstones.all() == []

    def test_a_transaction_sees_its_own_changes(self, registry: Registry) -> None:
        table, run = a_table(), a_run()

        with registry.transaction() as transaction:
            transaction.tables.insert(table)
            transaction.runs.insert(run)

            assert transaction.tables.get(table.table_id) == table
            assert transaction.runs.next_claimable() == run

    def test_each_transaction_is_reported_and_only_those_that_the_registry_failed_as_failed(
        self, registry: Registry
    ) -> None:
        reports: list[tuple[float, float, bool]] = []
        registry.on_transaction = lambda *report: reports.append(report)

        insert_tables(registry, a_table())
        with pytest.raises(KeyError), registry.transaction():
            raise KeyError("ours")
        with pytest.raises(TableExists), registry.transaction() as transaction:
            transaction.tables.insert(a_table())
        with registry.reading():
            pass
        registry.close()
        with pytest.raises(RegistryError), registry.transaction():
            pass

        assert [failed for _, _, failed in reports] == [False, False, False, True]
        assert all(waited_s >= 0 and lasted_s >= 0 for waited_s, lasted_s, _ in reports)

    def test_a_transaction_inside_a_transaction_is_refused_and_the_outer_one_goes_on(
        self, registry: Registry
    ) -> None:
        table = a_table()

        with registry.transaction() as transaction:
            with pytest.raises(RegistryError, match="already in a transaction"), registry.transaction():
                pass
            with pytest.raises(RegistryError, match="already in a transaction"):
                registry.definitions.put(a_definition("w1"))
            transaction.tables.insert(table)

        assert all_tables(registry) == [table]
        assert registry.definitions.all() == []

    def test_a_transaction_cannot_be_used_after_its_end(self, registry: Registry) -> None:
        with registry.transaction() as transaction:
            pass

        with pytest.raises(RegistryError):
            transaction.runs.insert(a_run())

        assert all_runs(registry) == []

    def test_a_closed_registry_refuses_and_closing_twice_is_harmless(self, registry: Registry) -> None:
        registry.close()
        registry.close()

        with pytest.raises(RegistryError, match="closed"), registry.transaction():
            pass

    def test_the_clock_is_in_utc_and_goes_on(self, registry: Registry) -> None:
        with registry.transaction() as transaction:
            first, second = transaction.now(), transaction.now()

        assert first.tzinfo is UTC
        assert first <= second

    def test_two_threads_never_run_two_refreshes_of_one_table(self, registry: Registry) -> None:
        table_ids = [f"t{number}" for number in range(3)]
        insert_runs(registry, *(a_run(table_id) for table_id in table_ids * 4))

        def claim() -> RefreshRun | None:
            with registry.transaction() as transaction:
                run = transaction.runs.next_claimable()
                if run is not None:
                    transaction.runs.replace(run.advance(RunStatus.RUNNING, claim=1), expected=run)
                return run

        claimed = [run for run in at_once(claim) if isinstance(run, RefreshRun)]

        assert sorted(run.table_id for run in claimed) == table_ids
        with registry.transaction() as transaction:
            assert {run.run_id for run in transaction.runs.newest(statuses=[RunStatus.RUNNING])} == {
                run.run_id for run in claimed
            }

    def test_one_request_key_asked_for_by_many_threads_gives_one_run(self, registry: Registry) -> None:
        def request() -> str:
            with registry.transaction() as transaction:
                found = transaction.runs.with_key("t-1", "k")
                if found is None:
                    found = a_run(request_key="k")
                    transaction.runs.insert(found)
                return found.run_id

        answers = at_once(request)

        assert len(all_runs(registry)) == 1
        assert set(answers) == {all_runs(registry)[0].run_id}

    def test_one_name_taken_by_many_threads_gives_one_table(self, registry: Registry) -> None:
        def create() -> MaterializedTable:
            table = a_table()
            with registry.transaction() as transaction:
                transaction.tables.insert(table)
            return table

        answers = at_once(create)

        created = [answer for answer in answers if isinstance(answer, MaterializedTable)]
        assert created == all_tables(registry)
        assert [type(answer) for answer in answers if answer not in created] == [TableExists] * (THREADS - 1)

    def test_changes_of_many_threads_to_one_table_are_all_kept(self, registry: Registry) -> None:
        table = a_table()
        insert_tables(registry, table)

        def change() -> int:
            with registry.transaction() as transaction:
                current = transaction.tables.get(table.table_id)
                assert current is not None
                options = {**current.dynamic_options, f"key-{current.revision}": "x"}
                transaction.tables.replace(replace(current, dynamic_options=options))
                return transaction.tables.next_claim(table.table_id)

        claims = at_once(change)

        (stored,) = all_tables(registry)
        assert sorted(str(claim) for claim in claims) == [str(number + 1) for number in range(THREADS)]
        assert stored.dynamic_options == {f"key-{number}": "x" for number in range(THREADS)}
        assert (stored.revision, stored.claim) == (THREADS, THREADS)

    def test_rows_that_can_be_read_are_all_read_past_those_that_cannot(self, registry: Registry) -> None:
        table = a_table()
        insert_tables(registry, table)

        with registry.transaction() as transaction:
            with transaction.past_unreadable() as unreadable:
                named = transaction.tables.named(table.identifier)
            rows = each_row(transaction, transaction.tables.page)

        assert (named, rows, unreadable) == (rows[0], all_tables(registry), [])
