"""What the last runs of a table took, as the ledger has it."""

from __future__ import annotations

from datetime import timedelta

from mt_core.incremental.cost import Measured
from mt_core.incremental.strategy import Way
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.run import Batch, RunStatus
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.refresh.change_plan import measured_runs
from mt_core.testing.fake_clock import FakeClock
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import NOON, a_run, a_table
from tests.support.registry_steps import insert_runs

TABLE = a_table()
DONE = {
    "table_id": TABLE.table_id,
    "status": RunStatus.SUCCEEDED,
    "fingerprint": fingerprint_of(TABLE.definition),
    "started_at": NOON,
    "finished_at": NOON + timedelta(seconds=4),
    "bytes_read": 1000,
}
ALL = Measured(way=Way.RECOMPUTE, seconds=4.0, bytes_read=1000)


def test_the_runs_by_a_strategy_and_the_recomputations_count_newest_first() -> None:
    registry = MemoryRegistry(FakeClock(NOON))
    later = {"started_at": NOON + timedelta(hours=1), "finished_at": NOON + timedelta(hours=1, seconds=12)}
    insert_runs(
        registry,
        a_run(**DONE, strategy="recompute"),
        a_run(**DONE, strategy="merge"),
        a_run(**DONE | later, strategy="keys"),
    )

    found = measured_runs(registry, TABLE, Way.KEYS)

    assert found == [Measured(way=Way.KEYS, seconds=12.0, bytes_read=1000), ALL]


def test_runs_of_partitions_of_lost_processes_and_of_other_queries_do_not_count() -> None:
    registry = MemoryRegistry(FakeClock(NOON))
    insert_runs(
        registry,
        a_run(**DONE, strategy="recompute", scope=Scope.of([PartitionSpec.of({"ds": "2026-03-01"})])),
        a_run(**DONE, strategy="recompute", attempt=2),
        a_run(**DONE | {"fingerprint": "of another query"}, strategy="recompute"),
        a_run(**DONE | {"status": RunStatus.FAILED}, strategy="recompute"),
    )

    assert measured_runs(registry, TABLE, Way.KEYS) == []


def test_each_batch_of_a_stretch_counts_by_itself() -> None:
    registry = MemoryRegistry(FakeClock(NOON))
    batches = tuple(
        Batch(
            number=number,
            began_at=NOON + timedelta(minutes=number),
            seconds=float(number),
            lag=None,
            strategy=strategy,
            rows=1,
            snapshot_id="1",
            bytes_read=number * 100,
        )
        for number, strategy in enumerate(["recompute", "keys"], 1)
    )
    stretch = DONE | {"status": RunStatus.RUNNING, "finished_at": None}
    insert_runs(
        registry, a_run(**DONE, strategy="recompute"), a_run(**stretch, strategy="keys", recent=batches)
    )

    assert measured_runs(registry, TABLE, Way.KEYS) == [
        Measured(way=Way.KEYS, seconds=2.0, bytes_read=200),
        Measured(way=Way.RECOMPUTE, seconds=1.0, bytes_read=100),
        ALL,
    ]
