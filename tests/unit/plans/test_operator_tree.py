from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.base.rowset import RowKind
from mt_core.plans.durations import FOR_EVER
from mt_core.plans.operator_tree import changelog_mode, state_lines, tree_lines
from mt_core.plans.operators import ADDS, ALL, Operator, OperatorState
from mt_core.plans.policies import TtlTimeCharacteristic, TtlUpdateEvent

EVENT, PROCESSING = TtlTimeCharacteristic.EVENT_TIME, TtlTimeCharacteristic.PROCESSING_TIME
UPDATES = frozenset({RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER})


def scan(name: str) -> Operator:
    return Operator(type="stream-exec-table-source-scan_2", description=name)


def aggregate(below: Operator, ttl: timedelta) -> Operator:
    state = OperatorState(index=0, name="groupAggregateState", ttl=ttl)
    return Operator(
        type="stream-exec-group-aggregate_1",
        description="by city",
        inputs=(below,),
        changes=UPDATES,
        states=(state,),
    )


JOIN = Operator(
    type="stream-exec-join_1",
    description="left outer",
    inputs=(aggregate(scan("clicks"), timedelta(hours=1)), aggregate(scan("views"), FOR_EVER)),
    changes=ALL,
    states=(
        OperatorState(index=0, name="leftState", ttl=timedelta(days=7)),
        OperatorState(index=1, name="rightState", ttl=timedelta(milliseconds=1500)),
    ),
)


def test_a_tree_has_the_changes_and_the_states_of_each_operator() -> None:
    assert list(tree_lines(JOIN)) == [
        "Join(left outer, changelogMode=[I,UB,UA,D], state=[leftState: 7 d, rightState: 1500 ms])",
        ":- GroupAggregate(by city, changelogMode=[I,UB,UA], state=[groupAggregateState: 1 h])",
        ":  +- TableSourceScan(clicks, changelogMode=[I])",
        "+- GroupAggregate(by city, changelogMode=[I,UB,UA], state=[groupAggregateState: for ever])",
        "   +- TableSourceScan(views, changelogMode=[I])",
    ]


def test_each_state_is_listed_with_how_long_it_is_kept() -> None:
    after = "an entry expires {} after it was written last"

    assert list(state_lines(JOIN)) == [
        f"State groupAggregateState of GroupAggregate: {after.format('1 h')}",
        "State groupAggregateState of GroupAggregate: retained for ever",
        f"State leftState of Join: {after.format('7 d')}",
        f"State rightState of Join: {after.format('1500 ms')}",
    ]


@pytest.mark.parametrize(
    ("update", "time", "text", "words"),
    [
        (TtlUpdateEvent.ON_CREATE, PROCESSING, "1 h ON CREATE", "it was created"),
        (TtlUpdateEvent.ON_READ, PROCESSING, "1 h ON READ", "it was read last"),
        (TtlUpdateEvent.ON_WRITE, EVENT, "1 h EVENT TIME", "it was written last in event time"),
        (
            TtlUpdateEvent.ON_READ_WRITE,
            EVENT,
            "1 h ON READ WRITE EVENT TIME",
            "it was read or written last in event time",
        ),
    ],
)
def test_a_policy_stands_behind_the_ttl(
    update: TtlUpdateEvent, time: TtlTimeCharacteristic, text: str, words: str
) -> None:
    state = OperatorState(index=0, name="rankState", ttl=timedelta(hours=1), update=update, time=time)
    operator = Operator(type="stream-exec-rank_1", description="rank", states=(state,))

    assert list(tree_lines(operator)) == [f"Rank(rank, changelogMode=[I], state=[rankState: {text}])"]
    assert list(state_lines(operator)) == [f"State rankState of Rank: an entry expires 1 h after {words}"]


def test_changes_stand_in_the_order_of_flink() -> None:
    assert [
        changelog_mode(each) for each in (ADDS, UPDATES, frozenset({RowKind.DELETE, RowKind.INSERT}))
    ] == [
        "[I]",
        "[I,UB,UA]",
        "[I,D]",
    ]
