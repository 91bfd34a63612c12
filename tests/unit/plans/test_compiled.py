"""Compiled plans: their nodes, what tells two apart, and which TTLs a statement takes from its plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.plans.compiled import PlanMode, PlanNode, Topology, fingerprint_of, nodes_of, short_upstream
from mt_core.plans.differences import differences
from mt_core.plans.errors import PlanInvalid
from mt_core.plans.explained import explained_plan
from mt_core.plans.json_form import plan_text
from mt_core.plans.operators import OperatorState
from mt_core.plans.policies import TtlTimeCharacteristic, TtlUpdateEvent
from mt_core.plans.policies import operator_policy as kept
from mt_core.plans.states import check_policies, check_topology, policies_of
from tests.support.plans import DAY, HOUR, aggregate, compiled, deduplicate, join, scan


def test_the_nodes_of_operators_come_after_their_inputs() -> None:
    nodes = nodes_of([join(scan("a"), deduplicate(scan("b")))])

    assert [(node.id, node.inputs) for node in nodes] == [(1, ()), (2, ()), (3, (2,)), (4, (1, 3))]
    assert nodes[2].description == "Deduplicate(keep=[FirstRow], key=[id], order=[PROCTIME])"
    assert nodes[2].output_type == "ROW<`id` BIGINT, `a ``b``` STRING>"


def test_a_ttl_does_not_change_the_fingerprint_and_all_else_does() -> None:
    plan = compiled()
    changes = [
        {"type": "stream-exec-rank_1"},
        {"description": "GroupAggregate(groupBy=[id])"},
        {"output_type": "ROW<`n` INT>"},
        {"changes": frozenset[object]()},
        {"states": ()},
    ]

    other_ttl = nodes_of([aggregate(deduplicate(scan(), DAY), HOUR)])
    others = [
        fingerprint_of((*plan.nodes[:-1], replace(plan.nodes[-1], **change)))  # type: ignore[arg-type]
        for change in changes
    ]

    assert fingerprint_of(other_ttl) == plan.fingerprint
    assert len({plan.fingerprint, *others}) == 1 + len(changes)


def test_a_ttl_that_is_shorter_upstream_is_a_warning() -> None:
    plan = compiled(aggregate(deduplicate(scan(), HOUR), DAY))

    assert list(short_upstream(plan)) == [
        "node 2 (stream-exec-deduplicate_1) retains deduplicateState for 1 h, "
        "less than node 3 (stream-exec-group-aggregate_1) downstream retains groupAggregateState (1 d): "
        "a key that expires in the first reaches the second as new"
    ]
    assert list(short_upstream(compiled(aggregate(deduplicate(scan(), DAY), HOUR)))) == []


def test_plans_that_are_equal_do_not_differ() -> None:
    assert list(differences(compiled(), compiled())) == []


def test_the_differences_of_plans_are_said_in_words() -> None:
    before = compiled(aggregate(deduplicate(scan(), HOUR), DAY))
    after = replace(
        compiled(aggregate(scan(), 2 * DAY), text="INSERT INTO sink SELECT 1"),
        spark_version="4.1.1",
        mode=PlanMode.BATCH,
        catalog="pond",
        temporary=(),
    )

    assert [str(each) for each in differences(before, after)] == [
        "sparkVersion: 4.1.0 -> 4.1.1",
        "mode: streaming -> batch",
        "current database: lake.sales -> pond.sales",
        "statement 1: INSERT INTO sink SELECT * FROM orders -> INSERT INTO sink SELECT 1",
        "temporary object 1 is gone: CREATE TEMPORARY VIEW v AS SELECT 1",
        (
            "node 2 (stream-exec-deduplicate_1) is gone: "
            "Deduplicate(keep=[FirstRow], key=[id], order=[PROCTIME])"
        ),
        "TTL of groupAggregateState of node 3 (stream-exec-group-aggregate_1): 1 d -> 2 d",
    ]


def test_the_secrets_of_a_plan_are_in_its_file_alone() -> None:
    plan = compiled()
    secret = replace(
        plan, temporary=("CREATE TEMPORARY TABLE t (a INT) WITH (\n'password' = 'hush', 'url' = 'jdbc:x')",)
    )

    shown = [explained_plan(secret, []), *(str(each) for each in differences(plan, secret))]

    assert "CREATE TEMPORARY TABLE t (a INT) WITH ( 'password' = '***', 'url' = 'jdbc:x')" in shown[0]
    assert "hush" not in "".join(shown)
    assert "hush" in plan_text(secret)


def test_a_plan_whose_ttls_were_edited_fits_its_statement() -> None:
    plan = compiled(aggregate(deduplicate(scan(), DAY), HOUR))
    now = Topology(spark_version="4.1.0", operators=(aggregate(deduplicate(scan())),))

    check_topology(plan, now.nodes)

    assert policies_of(plan, now, HOUR) == (((kept(DAY),), (kept(HOUR),)),)


def test_a_plan_has_the_policies_that_were_edited_and_an_input_without_one_takes_that_of_the_first() -> None:
    plan = compiled(join(scan("a"), scan("b")))
    event = {"update": TtlUpdateEvent.ON_READ, "time": TtlTimeCharacteristic.EVENT_TIME}
    states = (replace(plan.nodes[-1].states[0], **event),)  # type: ignore[arg-type]
    edited = replace(plan, nodes=(*plan.nodes[:-1], replace(plan.nodes[-1], states=states)))
    now = Topology(spark_version="4.1.0", operators=(join(scan("a"), scan("b")),))

    check_topology(edited, now.nodes)

    assert policies_of(edited, now, HOUR) == (((states[0].policy, states[0].policy),),)
    assert "TTL of leftState of node 3 (stream-exec-join_1): 7 d -> 7 d ON READ EVENT TIME" in map(
        str, differences(plan, edited)
    )
    assert "state=[leftState: 7 d ON READ EVENT TIME]" in explained_plan(edited, [])


def test_each_statement_of_a_set_has_the_ttls_of_its_operators() -> None:
    plan = compiled(deduplicate(scan(), HOUR), aggregate(scan("b"), DAY), scan("c"))
    now = Topology(spark_version="4.1.0", operators=(deduplicate(scan()), aggregate(scan("b")), scan("c")))

    assert policies_of(plan, now, HOUR) == (((kept(HOUR),),), ((kept(DAY),),), ())


@pytest.mark.parametrize(
    "planned",
    [
        ((("1 h",), ("1 d",)), ()),
        ((("1 d",),), ()),
        ((("1 d",), ("1 h ON READ",)), ()),
        ((("1 d",), ("1 h",)), (("1 h",),)),
    ],
)
def test_operators_that_take_other_ttls_than_planned_are_refused(
    planned: tuple[tuple[tuple[str, ...], ...], ...],
) -> None:
    now = Topology(spark_version="4.1.0", operators=(aggregate(deduplicate(scan(), DAY), HOUR), scan()))

    check_policies([(("1 d",), ("1 h",)), ()], now)
    check_policies([None, None], now)
    with pytest.raises(
        PlanInvalid, match="state has TTLs that the operators of the statement did not accept"
    ):
        check_policies(planned, now)


def test_a_statement_that_gives_other_operators_now_is_refused() -> None:
    plan = compiled(aggregate(deduplicate(scan())))

    with pytest.raises(PlanInvalid) as refused:
        check_topology(plan, nodes_of([aggregate(scan())]))

    assert "has other operators than when it was compiled" in str(refused.value)
    assert "node 2 (stream-exec-deduplicate_1) is gone" in str(refused.value)


def test_a_node_that_was_edited_is_refused() -> None:
    plan = compiled()
    edited = (
        replace(plan.nodes[0], description="TableSourceScan(table=[lake.sales.others])"),
        *plan.nodes[1:],
    )

    with pytest.raises(PlanInvalid) as refused:
        check_topology(replace(plan, nodes=edited), plan.nodes)

    assert (
        "nodes were edited, but only the ttl, update and time of a state may be changed: "
        "description of node 1" in str(refused.value)
    )


def _without_states(node: PlanNode, keep: int) -> PlanNode:
    return replace(node, states=node.states[:keep])


@pytest.mark.parametrize(
    ("keep", "ttls"), [(0, (timedelta(seconds=5),) * 2), (1, (7 * DAY, 7 * DAY)), (2, (7 * DAY, DAY))]
)
def test_states_that_a_plan_does_not_name_take_the_ttl_of_the_first_or_of_the_session(
    keep: int, ttls: tuple[timedelta, ...]
) -> None:
    plan = compiled(join(scan("a"), scan("b")))
    edited = replace(plan, nodes=(*plan.nodes[:-1], _without_states(plan.nodes[-1], keep)))

    now = Topology(spark_version="4.1.0", operators=(join(scan("a"), scan("b")),))

    check_topology(edited, now.nodes)

    assert policies_of(edited, now, timedelta(seconds=5)) == ((tuple(map(kept, ttls)),),)


def test_a_state_of_an_operator_that_keeps_none_is_refused() -> None:
    plan = compiled(deduplicate(scan()))
    added = replace(plan.nodes[0], states=(OperatorState(index=0, name="scanState", ttl=HOUR),))

    with pytest.raises(PlanInvalid, match=r"nodes\[0\]\.state has scanState, which .* does not have"):
        check_topology(replace(plan, nodes=(added, *plan.nodes[1:])), plan.nodes)


def test_a_fingerprint_that_was_edited_is_refused_as_such() -> None:
    plan = compiled(deduplicate(scan()))

    with pytest.raises(
        PlanInvalid, match="fingerprint was edited: it does not match the nodes, which match the statement"
    ) as refused:
        check_topology(replace(plan, fingerprint="abc"), plan.nodes)

    assert "other operators" not in str(refused.value)


def test_a_state_of_another_name_is_refused() -> None:
    plan = compiled(deduplicate(scan()))
    renamed = replace(plan.nodes[-1], states=(OperatorState(index=0, name="rankState", ttl=HOUR),))

    with pytest.raises(PlanInvalid, match=r"state 0 of node 2 .*: rankState -> deduplicateState"):
        check_topology(replace(plan, nodes=(*plan.nodes[:-1], renamed)), plan.nodes)
