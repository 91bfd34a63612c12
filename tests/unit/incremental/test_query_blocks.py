from __future__ import annotations

import pytest

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.blocks import Blocks, ComputedReading, Kind, Pair
from mt_core.incremental.stages.join_blocks import JoinBlock
from mt_core.incremental.stages.query_blocks import blocks_of, never_changes
from tests.support.blocks import FIRST_NUMBER, blocks_in, key_names
from tests.support.plan_json import (
    Nodes,
    aggregate,
    alias,
    call,
    column,
    function,
    join,
    literal,
    node,
    operator,
    project,
    subquery,
    where,
)

K, A, C, N, P, Q = (column(number, "x", "long") for number in range(1, 7))


def reading(number: int, *columns: tuple[int, str, str]) -> Nodes:
    output = [column(*each) for each in columns]
    return operator("DataSourceV2Relation", output=output, reading=number)


ORDERS = reading(0, (1, "k", "long"), (2, "a", "long"))
CUSTOMERS = reading(1, (3, "c", "long"), (4, "n", "long"))
NATIONS = reading(2, (5, "p", "long"), (6, "q", "long"))
CONSTANT = operator("LocalRelation", output=[column(9, "x", "long")])
ALL = frozenset({0, 1, 2})


def equal(left: Nodes, right: Nodes) -> Nodes:
    return node("EqualTo", left, right)


def null_safe(left: Nodes, right: Nodes) -> Nodes:
    return node("EqualNullSafe", left, right)


def both(left: Nodes, right: Nodes) -> Nodes:
    return node("And", left, right)


def window(partition: list[Nodes], child: Nodes) -> Nodes:
    rank = alias(8, node("WindowExpression", node("Rank"), node("WindowSpecDefinition")))
    return operator("Window", child, windowExpressions=[rank], partitionSpec=partition, orderSpec=[])


def obstacle(tree: Nodes) -> str:
    found = blocks_of([read_plan(tree)], "[0,[]]", FIRST_NUMBER)
    assert isinstance(found, str), found
    return found


def joins(tree: Nodes) -> JoinBlock:
    """Return how the readings of the topmost block of a tree are joined."""
    return blocks_in(tree).root.joins


def keys(tree: Nodes) -> list[str]:
    """Return the keys of the topmost block of a tree, such as `0.k=1.c`."""
    return key_names(joins(tree))


def of_types(left: str, right: str) -> list[str]:
    """Return the keys of a join of two columns of these types."""
    sides = reading(0, (1, "a", left)), reading(1, (2, "b", right))
    return keys(join("Inner", *sides, equal(column(1), column(2))))


def test_the_readings_of_inner_joins_are_a_block() -> None:
    tree = join("Inner", join("Inner", ORDERS, CUSTOMERS, equal(K, C)), NATIONS, equal(N, P))

    assert joins(tree).readings == ALL
    assert keys(tree) == ["0.k=1.c", "1.n=2.p"]


def test_a_reading_of_its_own_is_a_block_without_keys() -> None:
    assert joins(where(equal(K, A), ORDERS)) == JoinBlock(readings=frozenset({0}), keys=())


def test_equalities_of_one_column_with_others_are_one_key() -> None:
    tree = join("Inner", join("Inner", ORDERS, CUSTOMERS, equal(K, C)), NATIONS, equal(P, C))

    assert keys(tree) == ["0.k=1.c=2.p"]


def test_a_key_class_has_the_first_column_of_a_reading() -> None:
    (key,) = joins(join("Inner", ORDERS, CUSTOMERS, both(equal(K, C), equal(C, A)))).keys

    assert [each.column for each in key.columns] == ["a", "k", "c"]
    first = key.of(0)
    assert first is not None
    assert first.column == "a"
    assert key.of(2) is None


def test_equalities_above_the_join_count() -> None:
    tree = where(both(equal(K, literal(1)), equal(C, K)), join("Cross", ORDERS, CUSTOMERS))

    assert keys(tree) == ["0.k=1.c"]


def test_a_cycle_of_equalities_has_all_its_keys() -> None:
    tree = join(
        "Inner",
        join("Inner", ORDERS, CUSTOMERS, equal(K, C)),
        NATIONS,
        both(equal(N, P), equal(Q, A)),
    )

    assert keys(tree) == ["0.a=2.q", "0.k=1.c", "1.n=2.p"]


def test_null_is_a_key_if_all_equalities_of_the_class_accept_it() -> None:
    tree = join("Inner", ORDERS, CUSTOMERS, null_safe(K, C))

    assert keys(tree) == ["0.k<=>1.c"]
    assert keys(join("Inner", tree, NATIONS, null_safe(C, P))) == ["0.k<=>1.c<=>2.p"]
    assert keys(join("Inner", tree, NATIONS, equal(C, P))) == ["0.k=1.c=2.p"]


def test_two_readings_of_a_source_are_two_readings() -> None:
    tree = join("Inner", ORDERS, reading(1, (3, "k", "long"), (4, "a", "long")), equal(K, C))

    assert keys(tree) == ["0.k=1.k"]


@pytest.mark.parametrize(
    "condition",
    [
        node("Or", equal(K, C), equal(A, N)),
        node("LessThan", K, C),
        equal(node("Add", K, A), C),
        equal(K, literal(1)),
        equal(K, A),
        node("Not", equal(K, C)),
    ],
)
def test_conditions_that_are_no_equality_of_two_readings_are_no_keys(condition: Nodes) -> None:
    assert keys(join("Inner", ORDERS, CUSTOMERS, condition)) == []


def test_columns_are_followed_through_aliases_and_wider_integers() -> None:
    narrow = reading(0, (1, "k", "integer"), (2, "a", "long"))
    wider = node("Cast", column(1, "k", "integer"), dataType="long")
    renamed = project([alias(7, wider), A], where(equal(A, literal(1)), narrow))

    assert keys(join("Inner", renamed, CUSTOMERS, equal(column(7), C))) == ["0.k=1.c"]
    assert keys(join("Inner", narrow, CUSTOMERS, equal(wider, C))) == ["0.k=1.c"]


def test_a_join_with_using_has_the_key_of_both_sides() -> None:
    joined = join("Inner", ORDERS, CUSTOMERS, equal(K, C))
    using = project([K, A, N], joined)

    assert keys(join("Inner", using, NATIONS, equal(K, P))) == ["0.k=1.c=2.p"]


def test_computed_columns_are_no_keys() -> None:
    number = node("Cast", column(1, "k", "string"), dataType="long")
    text = reading(0, (1, "k", "string"), (2, "a", "long"))
    computed = project([alias(7, number), alias(8, node("Add", A, A))], text)

    assert keys(join("Inner", text, CUSTOMERS, equal(number, C))) == []
    assert keys(join("Inner", computed, CUSTOMERS, both(equal(column(7), C), equal(column(8), N)))) == []


@pytest.mark.parametrize(
    "type_", ["string", "date", "timestamp", "timestamp_ntz", "boolean", "byte", "decimal(18,2)"]
)
def test_equal_types_whose_bits_are_compared_are_keys(type_: str) -> None:
    assert of_types(type_, type_) == ["0.a=1.b"]


def test_integers_of_any_width_are_keys() -> None:
    assert of_types("integer", "long") == of_types("short", "byte") == ["0.a=1.b"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("double", "double"),
        ("float", "float"),
        ("binary", "binary"),
        ("string collate UTF8_LCASE", "string collate UTF8_LCASE"),
        ("decimal(19,2)", "decimal(19,2)"),
        ("decimal(10,2)", "decimal(10,3)"),
        ("date", "timestamp"),
        ("long", "decimal(18,0)"),
        ("string", "long"),
    ],
)
def test_other_types_are_no_keys(left: str, right: str) -> None:
    assert of_types(left, right) == []


def test_a_nested_column_is_no_key() -> None:
    nested = node("AttributeReference", name="a", dataType={"type": "struct"}, exprId={"id": 1})
    sides = operator("DataSourceV2Relation", output=[nested], reading=0), CUSTOMERS

    assert keys(join("Inner", *sides, equal(column(1), C))) == []


def test_generated_rows_have_the_keys_of_the_row_they_come_from() -> None:
    generated = operator("Generate", ORDERS, output=[K, A, column(7)])

    assert keys(join("Inner", generated, CUSTOMERS, both(equal(K, C), equal(column(7), N)))) == ["0.k=1.c"]


def test_expanded_columns_are_no_keys() -> None:
    expanded = operator("Expand", ORDERS, projections=[[K, A], [K, literal(None)]], output=[K, A])

    assert keys(join("Inner", expanded, CUSTOMERS, equal(K, C))) == []


def test_conditions_of_other_joins_are_no_equalities_of_their_rows() -> None:
    for kind in ("LeftOuter", "LeftSemi", "LeftAnti"):
        inner = join("Inner", ORDERS, CUSTOMERS, equal(K, C))
        assert keys(join(kind, inner, CONSTANT, equal(A, N))) == ["0.k=1.c"]


def test_constants_are_joined_without_a_key() -> None:
    tree = join("Inner", join("Inner", ORDERS, CONSTANT, equal(K, column(9))), CUSTOMERS, equal(column(9), C))

    assert (joins(tree).readings, keys(tree)) == ({0, 1}, [])


# ------------------------------------------------------------------------------------------ computed readings

GROUPS = aggregate([C], [C, alias(7, call("Max", N), "m")], CUSTOMERS, functions=[function("Max")])


def only(tree: Nodes) -> ComputedReading:
    """Return the computed reading that is the only reading of the topmost block of a tree."""
    blocks = blocks_in(tree)
    (number,) = blocks.root.readings
    return blocks.computed[number]


def pairs(tree: Nodes) -> list[tuple[int, int, bool]]:
    return [(each.left, each.right, each.null_safe) for each in only(tree).pairs]


@pytest.mark.parametrize("kind", ["LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"])
def test_a_join_that_preserves_its_left_side_is_a_computed_reading(kind: str) -> None:
    reading = only(join(kind, ORDERS, CUSTOMERS, equal(C, K), exists=8))

    assert (reading.kind, reading.number, reading.place) == (Kind.JOIN, FIRST_NUMBER, "[0,[]]")
    assert [(each.place, each.readings) for each in reading.inputs] == [("[0,[0]]", (0,)), ("[0,[1]]", (1,))]
    assert [(each.left, each.right) for each in reading.pairs] == [(0, 0)]
    left = ((0, 0), (0, 1))
    others = {"LeftOuter": ((1, 0), (1, 1)), "ExistenceJoin": (None,)}
    assert reading.passed == (*left, *others.get(kind, ()))


def test_the_first_input_of_a_right_join_is_its_right_side() -> None:
    reading = only(join("RightOuter", ORDERS, CUSTOMERS, equal(K, N)))

    assert [each.readings for each in reading.inputs] == [(1,), (0,)]
    assert [(each.left, each.right) for each in reading.pairs] == [(1, 0)]
    assert reading.passed == ((1, 0), (1, 1), (0, 0), (0, 1))
    assert reading.words == "a right join by x"


def test_both_sides_of_a_full_join_have_its_keys() -> None:
    reading = only(join("FullOuter", ORDERS, CUSTOMERS, both(equal(K, C), null_safe(A, N))))

    assert reading.kind is Kind.FULL
    assert [(each.left, each.right, each.null_safe) for each in reading.pairs] == [
        (0, 0, False),
        (1, 1, True),
    ]
    assert reading.passed == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_conditions_that_equate_no_columns_leave_a_join_without_pairs() -> None:
    computed = project([alias(7, node("Add", C, N)), N], CUSTOMERS)

    assert pairs(join("LeftOuter", ORDERS, CUSTOMERS, node("LessThan", K, C))) == []
    assert pairs(join("LeftAnti", ORDERS, computed, equal(K, column(7)))) == []
    assert pairs(join("LeftSemi", ORDERS, CUSTOMERS, both(equal(K, A), equal(K, C)))) == [(0, 0, False)]


def test_the_keys_of_groups_are_their_plain_columns() -> None:
    year = node("Year", A)
    reading = only(aggregate([year, K], [alias(7, year), K], ORDERS))

    assert (reading.kind, reading.keys, reading.passed) == (Kind.GROUPS, (0,), (None, (0, 0)))


def test_the_keys_of_a_window_are_the_plain_columns_of_its_partitions() -> None:
    reading = only(window([A, node("Year", K)], ORDERS))

    assert (reading.kind, reading.keys) == (Kind.WINDOW, (1,))
    assert reading.passed == ((0, 0), (0, 1), None)


def test_groups_and_windows_whose_keys_find_no_rows_still_have_named_keys() -> None:
    doubles = reading(0, (1, "k", "double"), (2, "a", "long"))
    years = project([alias(9, node("Year", A)), A], doubles)

    (groups,) = blocks_in(aggregate([K, A], [A, K], doubles)).computed.values()
    (by_double,) = blocks_in(window([K], doubles)).computed.values()
    (by_year,) = blocks_in(aggregate([column(9)], [column(9)], years)).computed.values()

    assert (groups.keys, groups.named, groups.passed) == ((1,), (0, 1), ((0, 1), (0, 0)))
    assert (by_double.kind, by_double.keys, by_double.named) == (Kind.WINDOW, (), (0,))
    assert (by_year.kind, by_year.keys, by_year.named, by_year.passed) == (Kind.GROUPS, (), (0,), ((0, 0),))


def test_equal_columns_that_find_no_rows_are_known() -> None:
    left, right = (reading(number, (1 + number, "a", "double")) for number in range(2))
    condition = equal(column(1, type_="double"), column(2, type_="double"))

    inner, outer = (blocks_in(join(kind, left, right, condition)) for kind in ("Inner", "LeftOuter"))

    assert [[each.reading for each in key.columns] for key in inner.root.equal] == [[0, 1]]
    assert inner.root.joins.keys == ()
    assert outer.computed[FIRST_NUMBER].equal == (Pair(left=0, right=0, null_safe=False),)
    assert outer.computed[FIRST_NUMBER].pairs == ()


def test_strings_that_a_collation_makes_equal_name_nothing() -> None:
    key, table = (
        column(13, type_="string collate UNICODE_CI"),
        reading(1, (13, "k", "string collate UNICODE_CI")),
    )

    blocks = blocks_in(join("LeftOuter", ORDERS, aggregate([key], [key], table), equal(K, key)))

    assert [each.kind for each in blocks.computed.values()] == [Kind.FIXED, Kind.JOIN]


def test_a_union_adds_up_blocks_of_its_branches() -> None:
    reading = only(operator("Union", join("Inner", ORDERS, CUSTOMERS, equal(K, C)), CONSTANT))

    assert (reading.kind, reading.words) == (Kind.UNION, "a UNION")
    assert [each.readings for each in reading.inputs] == [(0, 1), ()]
    assert key_names(reading.inputs[0].joins) == ["0.k=1.c"]


def test_a_block_joins_tables_with_computed_readings() -> None:
    blocks = blocks_in(join("Inner", ORDERS, GROUPS, both(equal(K, C), equal(A, column(7)))))

    assert blocks.root.readings == (0, FIRST_NUMBER)
    assert key_names(blocks.root.joins) == ["0.a=100.c1", "0.k=100.c0"]
    assert [blocks.finds(blocks.root, each) for each in range(4)] == [True, True, True, False]
    assert {each.column for each in blocks.key_columns()} == {"a", "k", "c"}
    assert blocks.tables() == {0, 1}


def test_a_table_that_is_read_in_several_places_is_a_reading_of_its_own_in_each() -> None:
    # Columns of both places may have the same ids, which are replaced above one of them.
    renamed = project([alias(11, K), alias(12, A)], ORDERS)
    tree = join(
        "Inner",
        project([K, A], ORDERS),
        join("Inner", renamed, CUSTOMERS, equal(column(12), N)),
        equal(A, column(11)),
    )

    blocks = blocks_in(tree)

    assert blocks.root.readings == (1, FIRST_NUMBER, FIRST_NUMBER + 1)
    assert key_names(blocks.root.joins) == ["1.n=101.c1", "100.c1=101.c0"]
    places = {number: (each.kind, each.place) for number, each in blocks.computed.items()}
    assert places == {
        FIRST_NUMBER: (Kind.UNION, "[0,[0,0]]"),
        FIRST_NUMBER + 1: (Kind.UNION, "[0,[1,0,0]]"),
    }
    assert [each.readings for reading in blocks.computed.values() for each in reading.inputs] == [(0,), (0,)]
    assert (blocks.tables(), blocks.linear(), blocks.fixed()) == ({0, 1}, {1}, {})
    assert {(each.reading, each.column) for each in blocks.key_columns()} == {(0, "k"), (0, "a"), (1, "n")}


def test_a_table_of_another_part_of_a_query_is_read_in_one_place() -> None:
    trees = [read_plan(operator("Union", project([K], ORDERS), ORDERS))]

    blocks = blocks_of(trees, "[0,[0]]", FIRST_NUMBER)

    assert isinstance(blocks, Blocks)
    assert (blocks.root.readings, blocks.computed) == ((0,), {})


def test_a_relation_that_names_its_version_never_changes() -> None:
    versioned = operator("DataSourceV2Relation", output=[C, N], reading=None, version="1")

    blocks = blocks_in(join("LeftSemi", ORDERS, versioned, equal(K, C)))

    assert (blocks.root.readings, blocks.computed) == ((0,), {})


def test_computed_readings_have_numbers_of_their_own() -> None:
    semi = join("LeftSemi", ORDERS, GROUPS, equal(K, C))

    blocks = blocks_in(join("LeftOuter", semi, NATIONS, equal(K, P)))

    assert [(number, each.place) for number, each in sorted(blocks.computed.items())] == [
        (FIRST_NUMBER, "[0,[0,1]]"),
        (FIRST_NUMBER + 1, "[0,[0]]"),
        (FIRST_NUMBER + 2, "[0,[]]"),
    ]


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        (operator("GlobalLimit", operator("LocalLimit", CUSTOMERS)), "a LIMIT"),
        (
            aggregate([], [alias(7, call("Max", N))], CUSTOMERS, functions=[function("Max")]),
            "max of all rows",
        ),
        (window([], CUSTOMERS), "a window over all rows"),
        (join("FullOuter", CUSTOMERS, NATIONS), "a full join without equal columns"),
    ],
)
def test_an_operator_without_a_key_is_computed_whole_from_tables_that_stay(whole: Nodes, words: str) -> None:
    blocks = blocks_in(join("Cross", ORDERS, whole))

    _, number = blocks.root.readings
    reading = blocks.computed[number]
    assert (reading.kind, reading.words) == (Kind.FIXED, words)
    assert {each.place for each in reading.inputs} == {reading.place}
    assert blocks.fixed() == dict.fromkeys(blocks.tables() - {0}, reading)


def test_computed_readings_below_an_operator_that_is_computed_whole_are_left_out() -> None:
    blocks = blocks_in(join("Cross", ORDERS, window([], GROUPS)))

    assert [each.kind for each in blocks.computed.values()] == [Kind.FIXED]


def test_nothing_is_a_block_if_all_its_tables_must_stay() -> None:
    assert obstacle(operator("GlobalLimit", ORDERS)) == "a LIMIT"
    assert obstacle(join("Inner", window([], ORDERS), CONSTANT)) == "a window over all rows"


def test_a_subquery_over_constants_that_is_not_deterministic_may_change() -> None:
    for is_random in (False, True):
        value = project([alias(8, literal(1))], operator("OneRowRelation"), deterministic=not is_random)
        trees = [read_plan(each) for each in (ORDERS, value, where(equal(K, subquery(1)), CONSTANT))]

        assert [never_changes(trees, number) for number in (1, 2)] == [not is_random, not is_random]


def test_columns_that_cannot_be_compared_pass_a_join() -> None:
    value = node("AttributeReference", name="m", dataType={"type": "map"}, exprId={"id": 7})
    table = operator("DataSourceV2Relation", output=[K, value], reading=0)

    reading = only(join("LeftOuter", table, CUSTOMERS, equal(K, C)))

    assert (reading.kind, reading.passed[1]) == (Kind.JOIN, (0, 1))


FIRST = aggregate([C], [C, alias(7, call("First", N), "f")], CUSTOMERS, functions=[function("First")])
REFUSED = "first, which is not reproducible, is combined with"


@pytest.mark.parametrize(
    ("tree", "met", "refused"),
    [
        (FIRST, {1}, {1: REFUSED}),
        (join("LeftOuter", ORDERS, FIRST, equal(K, C)), {0, 1}, {1: REFUSED}),
        (join("LeftOuter", FIRST, ORDERS, equal(K, C)), {0, 1}, {0: REFUSED, 1: REFUSED}),
        (join("Inner", ORDERS, FIRST, equal(K, C)), {0, 1}, {1: REFUSED}),
        (operator("Union", FIRST, ORDERS), {1}, {1: REFUSED}),
        (operator("Union", FIRST, window([P], NATIONS)), {1}, {1: REFUSED}),
        (join("Inner", FIRST, window([P], NATIONS)), {1, 2}, {1: REFUSED, 2: REFUSED}),
        (window([A], join("Inner", ORDERS, FIRST, equal(K, C))), {0, 1}, {0: REFUSED, 1: REFUSED}),
        (GROUPS, set(), {}),
    ],
)
def test_changes_are_refused_if_old_rows_have_values_that_are_not_reproducible(
    tree: Nodes, met: set[int], refused: dict[int, str]
) -> None:
    # Rows that a linear table adds may have any of these values.
    blocks = blocks_in(tree)

    assert (blocks.with_unstable().keys(), blocks.refused()) == (met, refused)


def test_an_offset_is_computed_whole_and_reproducible_if_its_order_leaves_no_choice() -> None:
    def offset(*order: Nodes) -> Nodes:
        by = [node("SortOrder", each) for each in order]
        ordered = operator("Sort", CUSTOMERS, order=by, **{"global": True})
        return operator("GlobalLimit", operator("LocalLimit", operator("Offset", ordered)))

    for order, unstable in (((C, N), ""), ((C,), "a LIMIT among rows of equal order")):
        blocks = blocks_in(join("Inner", ORDERS, offset(*order), equal(K, C)))

        (reading,) = blocks.computed.values()
        assert (reading.kind, reading.words, reading.unstable) == (Kind.FIXED, "a LIMIT", unstable)
        assert blocks.refused() == {1: "a LIMIT reads"}


def test_a_side_of_a_join_has_known_columns() -> None:
    unknown = join("LeftOuter", operator("OneRowRelation"), ORDERS)

    assert obstacle(unknown) == "a OneRowRelation whose columns are not known"
