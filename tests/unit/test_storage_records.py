"""What a storage table records of its runs stays readable: version 1, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from mt_core.model.partition import WHOLE, DoubtedPartitions, PartitionSpec, Scope
from mt_core.model.storage import (
    CREATED,
    EPOCH,
    JOB_ID,
    LAST_RUN,
    STREAM,
    TABLE_ID,
    InVain,
    Snapshot,
    in_vain_summary,
    is_run_branch,
    is_state_table,
    late_summary,
    repeated_summary,
    run_summary,
    state_summary,
    state_table_name,
    states_property,
    tiny_states,
)

RUN = "0d9f8a4e-1111-4222-8333-444455556666"
SUMMARY = {
    "freshtable.run-id": RUN,
    "freshtable.partitions": "null",
    "freshtable.sources": '[{"name": "lake.sales.orders", "kind": "table", "version": {"snapshot": "7"}}]',
    "freshtable.fingerprint": "f1",
    "freshtable.schedule-time": "2026-03-30T00:00:00+00:00",
}


def test_the_summary_of_a_run_has_the_keys_and_values_of_version_1() -> None:
    summary = run_summary(
        run_id=RUN,
        scope=WHOLE,
        sources=[{"name": "lake.sales.orders", "kind": "table", "version": {"snapshot": "7"}}],
        fingerprint="f1",
        schedule_time=datetime(2026, 3, 30, tzinfo=UTC),
        strategy="append",
    )

    assert summary == {**SUMMARY, "freshtable.strategy": "append"}


def test_a_summary_of_version_1_is_read_back() -> None:
    snapshot = Snapshot.of("42", SUMMARY)

    assert snapshot == Snapshot(
        snapshot_id="42", run_id=RUN, scope=WHOLE, sources=SUMMARY["freshtable.sources"], fingerprint="f1"
    )


def test_a_snapshot_counts_rows_that_files_and_delete_files_removed() -> None:
    counts = {
        "added-records": "9",
        "deleted-records": "5",
        "added-position-deletes": "3",
        "removed-position-deletes": "1",
    }

    snapshot = Snapshot.of(
        "42", {**SUMMARY, **counts, "freshtable.strategy": "keys", "freshtable.bytes-read": "4096"}
    )

    assert (snapshot.strategy, snapshot.added_rows, snapshot.deleted_rows, snapshot.bytes_read) == (
        "keys",
        9,
        7,
        4096,
    )


def test_a_snapshot_does_not_count_rows_that_it_says_it_copied() -> None:
    counts = {
        "added-records": "9",
        "deleted-records": "5",
        "added-position-deletes": "6",
        "removed-position-deletes": "4",
    }

    snapshot = Snapshot.of("42", {**SUMMARY, **counts, "freshtable.copied-rows": "4"})

    assert (snapshot.added_rows, snapshot.deleted_rows) == (5, 3)


def test_what_was_read_in_vain_is_counted_with_each_recomputation_since() -> None:
    summary = in_vain_summary(InVain(what="keys", size=4096))

    assert summary == {"freshtable.in-vain": '{"what": "keys", "size": 4096, "recomputed": 1}'}
    assert Snapshot.of("42", summary).in_vain == InVain(what="keys", size=4096, recomputed=1)
    assert repeated_summary(summary) == summary
    assert in_vain_summary(None) == {}


def test_snapshots_of_others_and_our_first_one_differ() -> None:
    snapshots = [Snapshot.of("1", {CREATED: "t-1"}), Snapshot.of("2", {"spark.app.id": "x"}, replace=True)]

    assert snapshots == [Snapshot(snapshot_id="1", created=True), Snapshot(snapshot_id="2", replace=True)]


def test_the_properties_and_branches_of_a_table_keep_their_names() -> None:
    branch = "run_0d9f8a4e111142228333444455556666_2"

    assert (TABLE_ID, EPOCH, LAST_RUN, CREATED, STREAM, JOB_ID) == (
        "freshtable.table-id",
        "freshtable.epoch",
        "freshtable.last-run",
        "freshtable.created",
        "freshtable.stream.",
        "freshtable.job-id",
    )
    assert [name for name in ("main", "run_b", "audit", branch) if is_run_branch(name)] == ["run_b", branch]


def test_a_snapshot_says_which_partitions_a_run_left_behind_and_which_are_in_doubt() -> None:
    day = Scope.of([PartitionSpec.of({"ds": "2026-03-01"})])
    doubted = DoubtedPartitions(scope=WHOLE, besides=day, reason="snapshot 5 has expired")
    summary = {**SUMMARY, **late_summary(day, doubted)}

    snapshots = [Snapshot.of("42", each) for each in (summary, {**SUMMARY, **repeated_summary(summary)})]

    assert [(each.late, each.doubted) for each in snapshots] == [(day, doubted)] * 2
    assert late_summary(None, doubted) == {}
    assert late_summary(day, doubted.without(WHOLE)) == late_summary(day)


def test_partitions_are_in_doubt_until_each_is_refreshed() -> None:
    first, second = (PartitionSpec.of({"ds": f"2026-03-0{number}"}) for number in (1, 2))
    named = DoubtedPartitions(scope=Scope.of([first, second]), reason="it has expired")
    every = replace(named, scope=WHOLE).without(Scope.of([second]))

    assert str(named) == "ds=2026-03-02, ds=2026-03-01"
    assert str(every) == "every partition but ds=2026-03-02"
    assert [named.without(Scope.of([first])).covers(each) for each in (first, second)] == [False, True]
    assert [every.covers(each) for each in (first, second)] == [True, False]
    hour = Scope.of([PartitionSpec.of({"ds": "2026-03-01", "hh": "1"})])
    assert str(named.without(hour)) == "ds=2026-03-02, ds=2026-03-01 but ds=2026-03-01/hh=1"
    assert not named.without(Scope.of([first])).without(Scope.of([second]))
    assert every.without(Scope.of([first]))
    assert not every.without(WHOLE)


def test_states_are_recorded_under_the_keys_of_version_1() -> None:
    summary = state_summary({"00aa11bb22cc33dd": "7"})

    assert summary == {"freshtable.state.00aa11bb22cc33dd": "7"}
    assert repeated_summary({**summary, "total-records": "1"}) == summary
    assert Snapshot.of("1", {**SUMMARY, **summary}).states == {"00aa11bb22cc33dd": "7"}
    text = '{"version":1,"publish":"r1/2","states":{"00aa11bb22cc33dd":"eJw="}}'
    assert states_property("r1/2", {"00aa11bb22cc33dd": "eJw="}) == text


def test_tiny_states_are_those_of_the_publish_that_the_property_names() -> None:
    texts = {"00aa11bb22cc33dd": "eJw="}
    properties, main = {"freshtable.states": states_property("r1/2", texts)}, Snapshot(snapshot_id="1")

    assert tiny_states(properties, replace(main, run_id="r1", batch=2)) == texts
    others = (replace(main, run_id="r1", batch=1), replace(main, run_id="r2", batch=2), main)
    assert [tiny_states(properties, each) for each in others] == [{}, {}, {}]
    assert tiny_states({}, replace(main, run_id="r1")) == {}


def test_the_name_of_a_state_table_has_the_ids_of_its_table_and_stage() -> None:
    name = state_table_name(RUN, "00aa11bb22cc33dd")

    assert name == "_freshtable_state_0d9f8a4e111142228333444455556666_00aa11bb22cc33dd"
    assert is_state_table(name)
    others = (state_table_name(RUN), f"{name}_", name.upper(), "_freshtable_state_x", "orders")
    assert not any(map(is_state_table, others))
