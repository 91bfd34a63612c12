from __future__ import annotations

import pytest

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.join_blocks import JoinBlock, join_blocks
from tests.support.plan_json import (
    Nodes,
    aggregate,
    alias,
    column,
    join,
    literal,
    node,
    operator,
    project,
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


def blocks(tree: Nodes) -> tuple[JoinBlock, ...]:
    return join_blocks(read_plan(aggregate([], [], tree)))


def block(tree: Nodes) -> JoinBlock:
    (only,) = blocks(tree)
    return only


def keys(tree: Nodes) -> list[str]:
    """Return the keys of the only block of a tree, such as `0.k=1.c`."""
    return keys_of(block(tree))


def keys_of(block: JoinBlock) -> list[str]:
    return [
        ("<=>" if each.null_safe else "=").join(f"{one.reading}.{one.column}" for one in each.columns)
        for each in block.keys
    ]


def of_types(left: str, right: str) -> list[str]:
    """Return the keys of a join of two columns of these types."""
    sides = reading(0, (1, "a", left)), reading(1, (2, "b", right))
    return keys(join("Inner", *sides, equal(column(1), column(2))))


def test_the_readings_of_inner_joins_are_a_block() -> None:
    tree = join("Inner", join("Inner", ORDERS, CUSTOMERS, equal(K, C)), NATIONS, equal(N, P))

    assert (block(tree).readings, block(tree).terms) == (ALL, ALL)
    assert keys(tree) == ["0.k=1.c", "1.n=2.p"]


def test_a_reading_of_its_own_is_a_block_without_keys() -> None:
    assert block(where(equal(K, A), ORDERS)) == JoinBlock(
        readings=frozenset({0}), terms=frozenset({0}), keys=()
    )


def test_equalities_of_one_column_with_others_are_one_key() -> None:
    tree = join("Inner", join("Inner", ORDERS, CUSTOMERS, equal(K, C)), NATIONS, equal(P, C))

    assert keys(tree) == ["0.k=1.c=2.p"]


def test_a_key_class_has_the_first_column_of_a_reading() -> None:
    (key,) = block(join("Inner", ORDERS, CUSTOMERS, both(equal(K, C), equal(C, A)))).keys

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
    generated = operator("Generate", ORDERS, unrequiredChildIndex=[], generatorOutput=[column(7)])

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

    assert (block(tree).readings, keys(tree)) == ({0, 1}, [])


def test_constants_of_a_union_do_not_stay_beside_a_change() -> None:
    constants = operator("Union", CONSTANT, CONSTANT)

    assert block(join("Cross", operator("Union", ORDERS, constants), constants)).terms == {0}


def test_the_branches_of_a_union_are_blocks_of_their_own() -> None:
    one = project([K, A], join("Inner", ORDERS, CUSTOMERS, equal(K, C)))

    first, second = blocks(operator("Union", one, NATIONS))

    assert (first.readings, first.terms, keys_of(first)) == ({0, 1}, {0, 1}, ["0.k=1.c"])
    assert (second.readings, second.terms, keys_of(second)) == ({2}, {2}, [])


def test_the_columns_of_a_union_are_those_of_its_branches_by_position() -> None:
    crossed = project([N, C], CUSTOMERS)
    tree = join("Inner", operator("Union", ORDERS, where(equal(C, N), crossed)), NATIONS, equal(K, P))

    first, second = blocks(tree)

    assert (first.terms, keys_of(first)) == ({0}, ["0.k=2.p"])
    assert (second.terms, keys_of(second)) == ({1}, ["1.n=2.p"])


def test_the_first_branch_of_a_union_may_be_a_row_of_literals() -> None:
    literals = project([alias(7, literal(1)), alias(8, literal(2))], operator("OneRowRelation"))
    tree = join("Inner", operator("Union", literals, ORDERS), CUSTOMERS, equal(column(8), C))

    assert keys(tree) == ["0.a=1.c"]


def test_a_branch_whose_columns_are_not_known_has_no_keys() -> None:
    # JSON does not say which columns of its child an operator omits.
    generated = operator("Generate", CUSTOMERS, unrequiredChildIndex=None, generatorOutput=[column(7)])
    for branches in ([ORDERS, generated], [generated, ORDERS]):
        tree = join(
            "Inner",
            operator("Union", *branches),
            NATIONS,
            equal(column(1 if branches[0] is ORDERS else 3), P),
        )
        assert all(each.keys == () for each in blocks(tree) if 1 in each.terms)


def test_a_change_that_is_joined_above_a_union_has_no_block() -> None:
    tree = join("Inner", operator("Union", ORDERS, CUSTOMERS), NATIONS, equal(K, P))

    assert [each.terms for each in blocks(tree)] == [{0}, {1}]
    assert [each.readings for each in blocks(tree)] == [{0, 2}, {1, 2}]
