"""The columns and the rows of each relation that a query uses, from recorded plans."""

from __future__ import annotations

import pytest

from mt_core.incremental.plan import Node, read_plan
from mt_core.incremental.reading_scopes import (
    Conjunct,
    ReadingScope,
    columns_in_text,
    combined_scopes,
    read_scopes,
)
from tests.support.recorded_plans import recorded, recorded_trees
from tests.support.tpc_plans import recorded_queries

PLANS = recorded_trees()


def columns(name: str) -> dict[int, str]:
    """Return the columns that a query reads of each relation, in alphabetical order."""
    return {number: " ".join(sorted(scope.columns)) for number, scope in read_scopes(PLANS[name]).items()}


def filters(name: str) -> dict[int, list[str]]:
    """Return the operators whose conditions apply to each relation, with the class of the condition."""
    return {
        number: [_words(name, each) for each in scope.filters]
        for number, scope in read_scopes(PLANS[name]).items()
        if scope.filters
    }


def _words(name: str, place: Conjunct) -> str:
    node: Node = read_plan(PLANS[name][place.tree])
    for position in place.path:
        node = node.children[position]
    (condition,) = node.expressions("condition")
    return f"{node.kind} {list(condition.conjuncts())[place.number].kind}"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("projection", {0: "amt cid id"}),
        ("join", {0: "amt cid id", 1: "cid seg"}),
        ("aggregate of all", {0: "amt d"}),
        ("constants", {0: ""}),
        ("explode", {0: "id s"}),
        ("exists", {0: "amt cid id", 1: "cap cid"}),
        ("semi join", {0: "cid s", 1: "cid"}),
        ("with, three times", {0: "cid", 1: "amt cid", 2: "cid"}),
        ("scalar subquery in a scalar subquery", {0: "cap", 1: "amt", 2: "id"}),
        ("with in a subquery, twice", {0: "cid id"}),
    ],
)
def test_only_columns_on_which_the_result_depends_are_in_scope(name: str, read: dict[int, str]) -> None:
    assert columns(name) == read


@pytest.mark.parametrize(
    ("name", "applied"),
    [
        ("projection", {0: ["Filter GreaterThan"]}),
        ("in from", {0: ["Filter GreaterThan"]}),
        ("exists", {1: ["Filter GreaterThan"]}),
        ("union of joins", {2: ["Filter IsNull"]}),
        ("two left joins", {2: ["Filter GreaterThan"]}),
        ("scalar subquery beside exists", {0: ["Filter GreaterThan"]}),
    ],
)
def test_conditions_that_stand_on_a_relation_are_its_filters(
    name: str, applied: dict[int, list[str]]
) -> None:
    assert filters(name) == applied


@pytest.mark.parametrize("name", ["having", "limit", "first of each", "filter of groups by key", "self join"])
def test_conditions_above_groups_windows_and_limits_or_on_two_relations_are_not(name: str) -> None:
    assert filters(name) == {}


@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("q4", {"orders": (3, 2), "lineitem": (3, 1)}),
        ("q12", {"orders": (2, 0), "lineitem": (5, 5)}),
        ("q13", {"customer": (1, 0), "orders": (3, 1)}),
        ("q14", {"lineitem": (4, 2), "part": (2, 0)}),
    ],
)
def test_the_numbers_of_columns_and_filters_of_queries_of_tpc_h(
    name: str, scopes: dict[str, tuple[int, int]]
) -> None:
    query = recorded_queries("tpch")[name]

    found = read_scopes(query.trees)

    sizes = {number: (len(scope.columns), len(scope.filters)) for number, scope in found.items()}
    assert {query.readings[number]: size for number, size in sizes.items()} == scopes


# ------------------------------------------------------------------- plans of two tables: a and b, c and d


def node(kind: str, *children: list[dict[str, object]], **fields: object) -> list[dict[str, object]]:
    first = {"class": kind, "num-children": len(children), **fields}
    return [first, *(each for child in children for each in child)]


def column(number: int) -> list[dict[str, object]]:
    return node("AttributeReference", exprId={"id": number}, name="abcd"[number])


def equal(left: list[dict[str, object]], right: list[dict[str, object]]) -> list[dict[str, object]]:
    return node("EqualTo", left, right)


def source(number: int) -> list[dict[str, object]]:
    output = [column(2 * number), column(2 * number + 1)]
    return node("DataSourceV2Relation", output=output, reading=number)


def literal() -> list[dict[str, object]]:
    return node("Literal", value="1")


def joined(kind: str, condition: list[dict[str, object]]) -> list[dict[str, object]]:
    return node("Join", source(0), source(1), joinType={"object": f"{kind}$"}, condition=condition)


ABOVE = node("And", equal(column(0), literal()), equal(column(2), literal()))
OWN = node(
    "And", node("And", equal(column(0), literal()), equal(column(2), literal())), equal(column(1), column(3))
)


@pytest.mark.parametrize(
    ("kind", "above", "own"),
    [
        ("Inner", {0, 1}, {0, 1}),
        ("LeftOuter", {0}, {1}),
        ("RightOuter", {1}, {0}),
        ("FullOuter", set(), set()),
        ("LeftSemi", {0}, {0, 1}),
        ("LeftAnti", {0}, {1}),
    ],
)
def test_a_join_passes_conditions_to_the_sides_whose_failing_rows_change_nothing(
    kind: str, above: set[int], own: set[int]
) -> None:
    filtered = node("Filter", joined(kind, equal(column(1), column(3))), condition=ABOVE)

    found = [read_scopes([plan]) for plan in (filtered, joined(kind, OWN))]

    assert [{number for number, scope in each.items() if scope.filters} for each in found] == [above, own]


def test_a_condition_on_a_renamed_column_is_a_filter_and_one_on_a_subquery_is_not() -> None:
    value = node("Alias", node("Add", column(0), column(1)), exprId={"id": 8}, name="e")
    subquery = node("Alias", node("ScalarSubquery", outerAttrs=[], subquery=1), exprId={"id": 9}, name="f")
    below = node("Project", source(0), projectList=[value, subquery])
    e, f = (node("AttributeReference", exprId={"id": number}, name="e") for number in (8, 9))

    plans = [node("Filter", below, condition=equal(each, literal())) for each in (e, f)]

    assert [len(read_scopes([plan, source(1)])[0].filters) for plan in plans] == [1, 0]


def test_columns_of_the_text_are_in_scope_though_the_trees_do_not_read_them() -> None:
    in_text = {0: ReadingScope(columns=frozenset("ab")), 1: ReadingScope(columns=frozenset("c"))}
    place = Conjunct(tree=0, path=(), number=0)
    in_trees = {0: ReadingScope(columns=frozenset("a"), filters=(place,))}

    found = combined_scopes(in_text, in_trees)

    assert found == {0: ReadingScope(columns=frozenset("ab"), filters=(place,)), 1: in_text[1]}


def test_the_columns_of_the_text_are_those_of_the_normal_form() -> None:
    plan, subqueries = recorded()["scalar subquery in a scalar subquery"]

    found = columns_in_text([plan, *subqueries])

    assert {number: set(scope.columns) for number, scope in found.items()} == {
        0: {"cap"},
        1: {"amt"},
        2: {"id"},
    }
