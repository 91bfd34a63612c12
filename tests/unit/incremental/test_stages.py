from __future__ import annotations

from typing import Any

import pytest

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.stages.accumulators import sql_name_of
from mt_core.incremental.stages.blocks import Kind
from mt_core.incremental.stages.compiler import compile_stages
from mt_core.incremental.stages.stage_plan import Stage, StagePlan
from mt_core.incremental.strategy import Strategy, Way, choose_stages
from tests.support.plan_json import (
    Nodes,
    aggregate,
    alias,
    call,
    column,
    equal,
    function,
    join,
    literal,
    node,
    operator,
    project,
    relation,
    subquery,
    where,
)

SOURCES = ("o", "c", "p", "o")
K, A, C, N = column(1, "k"), column(2, "a"), column(3, "k"), column(4, "n")
ORDERS, ORDERS_AGAIN = relation(0, {1: "k", 2: "a"}), relation(3, {11: "k", 12: "a"})
CUSTOMERS = relation(1, {3: "k", 4: "n"})
JOINED = join("Inner", ORDERS, CUSTOMERS, equal(K, C))
CONSTANT = operator("LocalRelation", output=[C, N])
SUM = function("Sum")


def totals(child: Nodes, key: Nodes = K, **facts: Any) -> Nodes:
    """Return `SELECT k, sum(a) AS total FROM child GROUP BY k`."""
    return aggregate([key], [key, alias(5, call("Sum", A), "total")], child, functions=[SUM], **facts)


def compiled(*trees: Nodes, version: str = "4.1.0") -> StagePlan | str:
    return compile_stages(trees, sources=SOURCES, version=version)


def plan_of(*trees: Nodes, version: str = "4.1.0") -> StagePlan:
    plan = compiled(*trees, version=version)
    assert isinstance(plan, StagePlan), plan
    return plan


def stage_of(*trees: Nodes, version: str = "4.1.0") -> Stage:
    (stage,) = plan_of(*trees, version=version).stages
    return stage


def test_an_aggregate_over_a_source_is_a_stage() -> None:
    plan = plan_of(totals(ORDERS))

    (stage,) = plan.stages
    assert (stage.places, stage.readings, stage.keys) == (("[0,[]]",), {0}, 1)
    assert stage.words == "sum by k"
    assert plan.rest == frozenset()


@pytest.mark.parametrize(
    "below",
    [
        pytest.param(project([K, A], ORDERS), id="projection"),
        pytest.param(where(equal(K, literal(1)), ORDERS), id="filter"),
        pytest.param(operator("Sort", ORDERS, order=[]), id="order"),
        pytest.param(operator("Expand", ORDERS, projections=[[K, A], [K, K]], output=[K, A]), id="expand"),
        pytest.param(
            operator("Generate", ORDERS, generator=node("Explode", A), generatorOutput=[C]), id="generate"
        ),
        pytest.param(operator("Union", ORDERS, CONSTANT), id="union with constants"),
        pytest.param(join("Cross", ORDERS, CONSTANT), id="join of constants"),
        pytest.param(join("LeftSemi", ORDERS, CONSTANT, equal(K, C)), id="semi join of constants"),
        pytest.param(join("LeftOuter", ORDERS, CONSTANT, equal(K, C)), id="left join of constants"),
        pytest.param(join("RightOuter", CONSTANT, ORDERS, equal(K, C)), id="right join of constants"),
        pytest.param(
            join("Inner", ORDERS, aggregate([C], [C], operator("Window", CONSTANT)), equal(K, C)),
            id="operators over constants",
        ),
    ],
)
def test_an_operator_that_treats_rows_apart_is_part_of_a_stage(below: Nodes) -> None:
    assert stage_of(totals(below)).readings == {0}


def test_a_stage_may_read_several_sources() -> None:
    assert stage_of(totals(JOINED)).readings == {0, 1}
    assert stage_of(totals(operator("Union", ORDERS, ORDERS_AGAIN))).readings == {0, 3}


def test_a_stage_may_read_a_source_in_several_places_and_at_a_version_that_it_names() -> None:
    versioned = relation(None, {3: "k"})

    stage = stage_of(totals(join("Inner", operator("Union", ORDERS, ORDERS), versioned, equal(K, C))))

    assert (stage.readings, stage.described) == ({0}, "sum by k")


@pytest.mark.parametrize(
    ("below", "reason"),
    [
        (join("LeftSingle", ORDERS, CUSTOMERS), "a LeftSingle join is below an aggregate"),
        (join("FullOuter", ORDERS, CUSTOMERS), "a full join without equal columns is below an aggregate"),
        (operator("Window", ORDERS), "a window over all rows is below an aggregate"),
        (operator("GlobalLimit", ORDERS), "a LIMIT is below an aggregate"),
        (operator("Offset", ORDERS), "an OFFSET is below an aggregate"),
        (operator("ArrowEvalPython", ORDERS), "ArrowEvalPython is below an aggregate"),
        (
            project([K, A], ORDERS, deterministic=False),
            "an expression that is not deterministic is below an aggregate",
        ),
        (
            join("LeftOuter", ORDERS, operator("Offset", CUSTOMERS)),
            "an OFFSET among rows of equal order is below an aggregate and is not reproducible",
        ),
    ],
)
def test_the_first_operator_without_a_rule_is_the_reason_for_no_stages(below: Nodes, reason: str) -> None:
    assert compiled(totals(below)) == reason


def test_a_query_without_aggregates_has_no_stages() -> None:
    assert compiled(project([K], JOINED)) == "it has no aggregate"


@pytest.mark.parametrize(
    ("called", "reason"),
    [
        (function("Count", None), None),
        (function("Count", "string"), None),
        (function("Count", "double"), None),
        (function("Sum", "bigint", filtered=True), None),
        (function("Sum", "decimal(38,10)"), None),
        (function("Average", "int"), None),
        (function("Average", "decimal(12,2)"), None),
        (function("Sum", "double"), "sum of double is not exact"),
        (function("Average", "float"), "avg of float is not exact"),
        (function("Sum", "interval day to second"), "sum of interval day to second is not exact"),
        (function("Sum", evalMode="TRY"), "sum is NULL after an overflow"),
        (function("Sum", evalMode="LEGACY"), "sum is NULL after an overflow"),
        (function("Average", evalMode="TRY"), "avg is NULL after an overflow"),
        (function("Count", distinct=True), "count(DISTINCT) needs more than sums and counts"),
        (function("Min"), "min needs more than sums and counts"),
        (function("StddevSamp", "double"), "stddev_samp needs more than sums and counts"),
        (function("PythonUDAF"), "python_udaf needs more than sums and counts"),
    ],
)
def test_sums_counts_and_averages_of_exact_numbers_have_accumulators(
    called: dict[str, Any], reason: str | None
) -> None:
    plan = compiled(aggregate([K], [K], ORDERS, functions=[function("Count"), called]))

    assert (plan if isinstance(plan, str) else None) == reason


@pytest.mark.parametrize(
    ("called", "reason"),
    [
        (function("Count", "string", distinct=True), None),
        (function("Sum", "double", distinct=True, filtered=True), None),
        (function("Average", "double", evalMode="TRY", distinct=True), None),
        (function("Count", "map<int,int>", distinct=True), "count(DISTINCT) of map<int,int>"),
        (function("CollectList", distinct=True), "collect_list(DISTINCT) needs more than sums and counts"),
    ],
)
def test_the_arguments_of_distinct_functions_are_the_keys_of_a_state_without_grouping_keys(
    called: dict[str, Any], reason: str | None
) -> None:
    others = [function("Count"), function("Min", distinct=True)]
    plan = compiled(aggregate([], [], ORDERS, functions=[*others, called]))

    assert (plan if isinstance(plan, str) else None) == reason
    assert isinstance(plan, str) or [(each.keys, each.words) for each in plan.stages] == [
        (2, f"count, min(DISTINCT), {sql_name_of(called)}(DISTINCT) of all rows")
    ]


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("double", None),
        ("array<int>", None),
        ("timestamp_ntz", None),
        ("map<string,int>", "its grouping key has type map<string,int>"),
        ("interval year", "its grouping key has type interval year"),
        ("void", "its grouping key has type void"),
        ("struct<>", "its grouping key has type struct<>"),
    ],
)
def test_a_state_has_keys_of_types_that_a_table_can_store(type_: str, reason: str | None) -> None:
    plan = compiled(totals(ORDERS, key_types=[type_]))

    assert (plan if isinstance(plan, str) else None) == reason


def test_distinct_is_a_stage_that_only_counts_rows() -> None:
    assert stage_of(aggregate([K, A], [K, A], ORDERS)).words == "distinct by k, a"


def test_the_words_of_a_stage_have_each_function_once_and_three_keys() -> None:
    keys = [column(number, f"k{number}") for number in range(5)]
    functions = [function("Sum"), function("Sum"), function("Average"), function("Count", None)]

    assert stage_of(aggregate([], [], ORDERS, functions=functions)).words == "sum, avg, count of all rows"
    assert stage_of(aggregate(keys, keys, ORDERS)).words == "distinct by k0, k1, k2 and 2 more"


def test_a_key_that_is_an_expression_has_the_name_of_its_column() -> None:
    year = column(6, "_groupingexpression", "integer")
    years = project([alias(6, node("Year", A), "_groupingexpression")], ORDERS)

    assert stage_of(aggregate([year], [alias(7, year, "y")], years)).words == "distinct by y"
    assert stage_of(aggregate([year], [], years)).words == "distinct by (...)"


def test_everything_above_the_lowest_aggregate_is_the_rest() -> None:
    nested = aggregate([], [alias(7, call("Max", column(5)))], totals(ORDERS), functions=[function("Max")])

    plan = plan_of(operator("GlobalLimit", operator("Window", where(equal(column(7), A), nested))))

    assert [stage.places for stage in plan.stages] == [("[0,[0,0,0,0]]",)]
    assert plan.rest == frozenset()


def test_a_reading_beside_a_stage_belongs_to_the_rest() -> None:
    plan = plan_of(join("LeftOuter", CUSTOMERS, totals(ORDERS)))

    assert [stage.readings for stage in plan.stages] == [{0}]
    assert plan.rest == {1}


def test_a_state_is_not_kept_if_the_rest_reads_all_its_sources() -> None:
    assert compiled(join("Inner", ORDERS_AGAIN, totals(ORDERS))) == "the rest of the query reads o as well"


def test_a_state_is_kept_if_it_spares_one_of_its_sources() -> None:
    plan = plan_of(join("Inner", ORDERS_AGAIN, totals(JOINED)))

    assert ([stage.readings for stage in plan.stages], plan.rest) == ([{0, 1}], {3})


def test_the_readings_of_a_state_that_is_not_kept_belong_to_the_rest() -> None:
    extremes = aggregate([C], [C], CUSTOMERS, functions=[function("Max")])
    counts = aggregate([column(21)], [column(21)], relation(2, {21: "k"}))

    plan = plan_of(
        join("Inner", join("Inner", totals(ORDERS), counts), join("Inner", extremes, ORDERS_AGAIN))
    )

    assert ([stage.readings for stage in plan.stages], plan.rest) == ([{2}], {0, 1, 3})


def test_an_aggregate_that_is_not_kept_is_computed_for_the_state_above_it() -> None:
    averages = totals(ORDERS_AGAIN, column(11))
    above = aggregate([], [alias(7, call("Sum", A))], join("Inner", ORDERS, averages), functions=[SUM])

    stage = stage_of(above)

    assert (stage.places, stage.readings) == (("[0,[]]",), {0, 3})
    assert [(each.kind, each.words) for each in stage.blocks.computed.values()] == [
        (Kind.GROUPS, "sum by x"),
    ]


@pytest.mark.parametrize(
    "below",
    [
        join("LeftOuter", ORDERS, CUSTOMERS, equal(K, C)),
        join("RightOuter", CUSTOMERS, ORDERS),
        join("FullOuter", ORDERS, CUSTOMERS, equal(K, C)),
        join("LeftSemi", ORDERS, CUSTOMERS),
        join("LeftAnti", ORDERS, CUSTOMERS, equal(K, C)),
        join("LeftSemi", CONSTANT, JOINED),
        operator("Union", ORDERS, CUSTOMERS),
    ],
)
def test_a_state_may_be_over_operators_that_are_not_linear(below: Nodes) -> None:
    stage = stage_of(totals(below))

    assert stage.readings == {0, 1}
    (number,) = stage.blocks.root.readings
    assert number == len(SOURCES)


def test_computed_readings_of_all_states_have_different_numbers() -> None:
    one = totals(join("LeftSemi", ORDERS, relation(2, {21: "k"})))
    other = totals(join("LeftSemi", ORDERS_AGAIN, CUSTOMERS), column(11))

    numbers = [
        number for stage in plan_of(operator("Union", one, other)).stages for number in stage.blocks.computed
    ]

    assert len(numbers) == len({*numbers})


def test_values_below_a_state_are_reproducible() -> None:
    first = aggregate([C], [C], CUSTOMERS, functions=[function("First")])

    assert compiled(totals(join("LeftSemi", ORDERS, first, equal(K, C)))) == (
        "first needs more than sums and counts; first is below an aggregate and is not reproducible"
    )


def test_a_state_may_be_over_tables_that_must_stay() -> None:
    total = aggregate([], [alias(7, call("Max", N))], CUSTOMERS, functions=[function("Max")])

    plan = plan_of(totals(join("Inner", ORDERS, total)))

    changes = {number: SourceChange(kind=ChangeKind.ROWS) for number in (0, 1)}
    assert choose_stages(plan, {0: changes[0]}, keys=(), relations=SOURCES).way is Way.STAGES
    assert choose_stages(plan, changes, keys=(), relations=SOURCES) == Strategy(
        way=Way.RECOMPUTE, reason="max of all rows reads c"
    )
    assert (
        compiled(totals(total))
        == "max needs more than sums and counts; max of all rows is below an aggregate"
    )


def test_an_aggregate_in_a_scalar_subquery_is_a_stage_of_its_own() -> None:
    total = aggregate([], [alias(6, call("Sum", A))], ORDERS_AGAIN, functions=[SUM])

    plan = plan_of(where(equal(column(5), subquery(1)), totals(ORDERS)), total)

    assert [(stage.places, stage.readings) for stage in plan.stages] == [
        (("[0,[0]]",), {0}),
        (("[1,[]]",), {3}),
    ]
    assert plan.row_keys is None


def test_a_scalar_subquery_over_constants_is_a_constant() -> None:
    assert stage_of(totals(where(equal(K, subquery(1)), ORDERS)), aggregate([], [], CONSTANT)).readings == {0}


def test_a_scalar_subquery_in_a_column_of_an_aggregate_belongs_to_the_rest() -> None:
    columns = [K, alias(5, call("Sum", A)), alias(6, subquery(1))]

    plan = plan_of(aggregate([K], columns, ORDERS, functions=[SUM]), CUSTOMERS)

    assert ([stage.readings for stage in plan.stages], plan.rest, plan.row_keys) == ([{0}], {1}, None)


def test_places_that_compute_the_same_share_a_state() -> None:
    again = totals(ORDERS_AGAIN, column(11), same="[0,[0]]")

    plan = plan_of(operator("Union", totals(ORDERS, same="[0,[0]]"), again))

    assert [(each.places, each.readings) for each in plan.stages] == [(("[0,[0]]", "[0,[1]]"), {0})]


def test_only_spark_says_that_places_compute_the_same() -> None:
    plan = plan_of(operator("Union", totals(ORDERS), totals(ORDERS)))

    assert len({stage.name for stage in plan.stages}) == 2


def test_the_name_of_a_stage_is_the_same_for_the_same_aggregate() -> None:
    renamed = relation(3, {31: "k", 32: "unread", 33: "a"})
    items = [alias(36, call("Sum", column(33, "a")), "s"), column(31, "k")]
    again = aggregate([column(31, "k")], items, project([column(31), column(33)], renamed), functions=[SUM])

    first = stage_of(totals(project([K, A], ORDERS)))

    assert first.name == stage_of(again).name
    assert len(first.name) == 16
    assert first.name == stage_of(operator("GlobalLimit", totals(project([K, A], ORDERS)))).name


@pytest.mark.parametrize(
    "other",
    [
        totals(relation(1, {1: "k", 2: "a"})),
        totals(relation(0, {1: "k", 2: "b"})),
        totals(ORDERS, A),
        totals(where(equal(K, literal(1)), ORDERS)),
        aggregate([K], [alias(5, call("Sum", A))], ORDERS, functions=[function("Sum", "bigint")]),
        aggregate([K], [alias(5, call("Sum", K))], ORDERS, functions=[SUM]),
        aggregate([K], [alias(5, call("Count", A))], ORDERS, functions=[function("Count")]),
    ],
)
def test_the_name_of_a_stage_tells_what_it_computes(other: Nodes) -> None:
    assert stage_of(other).name != stage_of(totals(ORDERS)).name


def test_another_version_of_spark_may_compute_other_states() -> None:
    assert stage_of(totals(ORDERS)).name != stage_of(totals(ORDERS), version="4.2.0").name


@pytest.mark.parametrize(
    ("tree", "keys"),
    [
        (totals(ORDERS), (0,)),
        (operator("Sort", where(equal(column(5), A), totals(ORDERS)), order=[]), (0,)),
        (project([column(5), alias(8, K)], totals(ORDERS)), (1,)),
        (aggregate([A, K], [K, alias(9, A)], ORDERS), (1, 0)),
        (project([column(5)], totals(ORDERS)), None),
        (project([alias(8, node("Add", K, K))], totals(ORDERS)), None),
        (aggregate([K], [alias(5, call("Sum", A))], ORDERS, functions=[SUM]), None),
        (aggregate([], [alias(5, call("Sum", A))], ORDERS, functions=[SUM]), None),
        (operator("GlobalLimit", totals(ORDERS)), None),
        (operator("Union", totals(ORDERS), CONSTANT), None),
        (join("Inner", totals(ORDERS), CONSTANT), None),
    ],
)
def test_rows_have_keys_where_each_comes_from_one_group(tree: Nodes, keys: tuple[int, ...] | None) -> None:
    assert plan_of(tree).row_keys == keys


def test_a_plan_says_which_states_change_and_what_the_rest_reads() -> None:
    plan = plan_of(join("Inner", join("Inner", totals(ORDERS), totals(ORDERS_AGAIN, column(11))), CUSTOMERS))

    assert plan.described(frozenset({0}), SOURCES) == "1 of 2 states: sum by k; the rest reads c"
    assert plan.described(frozenset({1}), SOURCES) == "0 of 2 states; the rest reads c"
    one = plan_of(totals(ORDERS))
    assert one.described(frozenset({0}), SOURCES) == "a state of sum by k"
    anti = join("LeftAnti", join("LeftSemi", ORDERS, CUSTOMERS, equal(K, C)), ORDERS_AGAIN)
    assert plan_of(totals(anti)).described(frozenset({1}), SOURCES) == (
        "a state of sum by k over an anti join without equal columns, a semi join by k"
    )
