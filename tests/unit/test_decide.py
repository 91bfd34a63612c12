import json
from dataclasses import replace

import pytest

from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import ReasonCode
from mt_core.model.storage import Snapshot
from mt_core.tables.engine import SourceVector, SourceVersion
from mt_core.tables.runs.decide import Decision, decide, only_compacted

P1, P2 = PartitionSpec.of({"ds": "1"}), PartitionSpec.of({"ds": "2"})


def vector(snapshot=7, *, unstable=None, at=None):
    version = {"uuid": "u", "snapshot": snapshot, "schema": 0, "at": at or snapshot}
    return SourceVector(
        sources=(SourceVersion(name="lake.s.t", kind="table", version=version),), unstable=unstable
    )


def wrote(scope, *, snapshot_id="s1", read=None, fingerprint="f"):
    sources = json.dumps((read or vector()).to_json())
    return Snapshot(
        snapshot_id=snapshot_id, run_id="r", scope=scope, sources=sources, fingerprint=fingerprint
    )


FIRST = Snapshot(snapshot_id="s0", created=True)
FOREIGN = Snapshot(snapshot_id="s9")
COMPACTION = Snapshot(snapshot_id="s8", replace=True)
OUR_COMPACTION = Snapshot(
    snapshot_id="s7",
    replace=True,
    run_id="r",
    scope=WHOLE,
    fingerprint="f",
    sources=json.dumps(vector().to_json()),
)


def decided(scope, history, *, asked=None, read=None, fingerprint="f"):
    return decide(asked=asked, scope=scope, vector=read or vector(), fingerprint=fingerprint, history=history)


def test_a_whole_table_at_the_current_vector_is_skipped():
    assert decided(WHOLE, [wrote(WHOLE), FIRST]) == Decision(
        scope=None, reason="sources unchanged", code=ReasonCode.SOURCES_UNCHANGED
    )


def test_a_new_partition_at_an_unchanged_vector_is_refreshed():
    decision = decided(Scope.of([P1, P2]), [wrote(Scope.of([P1])), FIRST])

    assert decision.scope == Scope.of([P2])
    assert decision.reason == "new partition (1 of 2 partitions unchanged)"


def test_a_compaction_of_ours_says_what_the_snapshot_before_it_said_which_may_expire():
    assert decided(WHOLE, [COMPACTION, OUR_COMPACTION]).scope is None
    assert decided(WHOLE, [OUR_COMPACTION], read=vector(8)).reason == "lake.s.t changed"


@pytest.mark.parametrize(
    ("history", "since", "same"),
    [
        ([COMPACTION, OUR_COMPACTION, wrote(WHOLE)], "s1", True),
        ([COMPACTION, OUR_COMPACTION, wrote(WHOLE)], "s7", True),
        ([COMPACTION, FOREIGN, wrote(WHOLE)], "s1", False),
        ([COMPACTION], "s1", False),
    ],
)
def test_a_table_that_was_only_compacted_has_the_rows_that_it_had(history, since, same):
    assert only_compacted(history, since) is same


def test_a_partition_written_by_a_whole_table_run_is_skipped():
    assert decided(Scope.of([P1]), [wrote(WHOLE), FIRST]).scope is None


@pytest.mark.parametrize(
    ("history", "read", "fingerprint", "reason", "code"),
    [
        ([wrote(WHOLE), FIRST], vector(8), "f", "lake.s.t changed", "SOURCES_CHANGED"),
        ([wrote(WHOLE), FIRST], vector(), "g", "the definition or its options changed", "DEFINITION_CHANGED"),
        ([FOREIGN, wrote(WHOLE)], vector(), "f", "another writer committed snapshot s9", "OTHER_WRITER"),
        ([FIRST], vector(), "f", "never refreshed before", "NEVER_REFRESHED"),
        ([wrote(Scope.of([P1])), wrote(WHOLE)], vector(), "f", "refreshed in parts since", "IN_PARTS"),
        ([COMPACTION], vector(), "f", "its last refresh is no longer in the table's history", "HISTORY_LOST"),
        (
            [wrote(WHOLE), FIRST],
            vector(unstable="current_date()"),
            "f",
            "the query is not stable: current_date()",
            "UNSTABLE_QUERY",
        ),
    ],
)
def test_a_whole_table_is_refreshed_and_the_reason_names_why(history, read, fingerprint, reason, code):
    decision = decided(WHOLE, history, read=read, fingerprint=fingerprint)

    assert decision == Decision(scope=WHOLE, reason=reason, code=code)


def test_partitions_with_one_reason_have_its_code_and_partitions_with_different_ones_have_several():
    one = decided(Scope.of([P1, P2]), [wrote(Scope.of([P1])), FIRST])
    different = decided(Scope.of([P1, P2]), [wrote(Scope.of([P1]), read=vector(6)), FIRST])

    assert one.code is ReasonCode.NEW_PARTITION
    assert (different.code, different.reason) == (
        ReasonCode.SEVERAL,
        "lake.s.t changed; new partition",
    )


def test_our_own_compaction_above_the_last_refresh_changes_nothing():
    assert decided(WHOLE, [COMPACTION, wrote(WHOLE), FIRST]).scope is None


def test_a_compaction_of_a_source_changes_nothing():
    assert decided(WHOLE, [wrote(WHOLE, read=vector(7, at=7)), FIRST], read=vector(7, at=9)).scope is None


def test_the_time_of_a_commit_tells_no_versions_apart():
    (source,) = vector().sources
    dated = replace(source, version={**(source.version or {}), "committed": "2026-03-01T12:00:00.000+00:00"})
    read = SourceVector(sources=(dated,))

    assert decided(WHOLE, [wrote(WHOLE), FIRST], read=read).scope is None


def test_a_source_rolled_back_to_a_version_read_earlier_is_a_change():
    history = [wrote(WHOLE, read=vector(8)), wrote(WHOLE, read=vector(7)), FIRST]

    assert decided(WHOLE, history, read=vector(7)).scope == WHOLE


def test_a_foreign_commit_below_our_refresh_is_passed_over():
    assert decided(WHOLE, [wrote(WHOLE), FOREIGN, FIRST]).scope is None


def test_a_foreign_commit_above_a_partitions_refresh_counts_even_under_another_refresh_of_ours():
    history = [wrote(Scope.of([P2])), FOREIGN, wrote(Scope.of([P1])), FIRST]

    assert decided(Scope.of([P1, P2]), history).scope == Scope.of([P1])


def test_a_partition_that_was_written_in_part_only_is_refreshed():
    narrow = PartitionSpec.of({"ds": "1", "hh": "0"})

    assert (
        decided(Scope.of([P1]), [wrote(Scope.of([narrow])), wrote(WHOLE), FIRST]).reason
        == "refreshed in parts since"
    )


def test_a_manual_refresh_never_skips():
    assert decided(WHOLE, [wrote(WHOLE), FIRST], asked="requested manually").reason == "requested manually"


def test_a_source_without_versions_never_skips():
    read = SourceVector(sources=(SourceVersion(name="csv.`/x`", kind="unversioned", version=None),))

    assert (
        decided(WHOLE, [wrote(WHOLE, read=read), FIRST], read=read).reason
        == "source csv.`/x` has no versions"
    )


def test_a_source_that_the_query_no_longer_reads_is_a_change():
    read = SourceVector(sources=())

    assert decided(WHOLE, [wrote(WHOLE), FIRST], read=read).reason == "lake.s.t changed"


def test_the_reason_says_once_how_many_sources_of_all_partitions_changed():
    orders, customers = (
        SourceVersion(name=f"lake.s.{name}", kind="table", version={"uuid": name, "snapshot": 1})
        for name in ("orders", "customers")
    )
    later = replace(customers, version={**(customers.version or {}), "snapshot": 2})
    p3 = PartitionSpec.of({"ds": "3"})
    history = [
        wrote(Scope.of([P1]), read=SourceVector(sources=(replace(orders, version=None), customers))),
        wrote(Scope.of([P2]), read=SourceVector(sources=(orders, customers))),
        FIRST,
    ]

    decision = decided(Scope.of([P1, P2, p3]), history, read=SourceVector(sources=(orders, later)))

    assert decision.reason == "lake.s.customers and 1 more source changed; new partition"


def test_the_history_is_read_no_further_than_needed():
    def history():
        yield wrote(WHOLE)
        pytest.fail("read on")

    assert decided(WHOLE, history()).scope is None
