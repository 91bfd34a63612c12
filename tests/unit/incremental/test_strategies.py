from __future__ import annotations

import pytest

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.first_rows import FirstRows
from mt_core.incremental.merging import check_types, inexact_sum
from mt_core.incremental.strategy import UNREAD, Strategy, Way
from tests.support.maintained_queries import QUERIES, MaintainedQuery
from tests.support.shape_strategies import APPENDS, BY_NAME, ROWS, TYPES, shape_of, strategy, strategy_of, way

LOST = SourceChange(kind=ChangeKind.UNKNOWN, base_live=False, reason="snapshot 1 has expired")


@pytest.mark.parametrize(
    "query", [query for query in QUERIES if query.name not in TYPES], ids=lambda query: query.name
)
def test_changes_of_one_source_are_applied_in_the_way_of_the_query(query: MaintainedQuery) -> None:
    assert {source: way(query.name, source, APPENDS) for source in query.appends} == query.appends
    assert {source: way(query.name, source, ROWS) for source in query.rows} == query.rows


def test_nothing_is_done_when_no_rows_changed() -> None:
    compacted = SourceChange(kind=ChangeKind.COMPACTION)

    assert strategy_of("join", o=compacted).way is Way.NOTHING


def test_a_change_that_the_query_does_not_read_counts_for_nothing() -> None:
    unread = SourceChange(kind=ChangeKind.UNREAD)

    assert strategy("join and aggregate", o=ROWS, c=unread).way is Way.MERGE
    assert strategy("histogram", o=unread) == Strategy(way=Way.NOTHING, reason=UNREAD)


def test_a_change_that_is_not_known_is_recomputed_with_its_reason() -> None:
    choice = strategy_of("join", o=LOST)

    assert (choice.way, choice.reason) == (
        Way.RECOMPUTE,
        "the changes of o are not known: snapshot 1 has expired",
    )


def test_two_changed_sources_need_the_old_version_of_both() -> None:
    expired = SourceChange(kind=ChangeKind.APPENDS, base_live=False)

    assert strategy_of("join", o=expired).way is Way.APPEND
    assert (
        strategy_of("join", o=expired, c=APPENDS).reason
        == "the changes of o are not known: its old version has expired"
    )


def test_appends_to_a_join_under_an_aggregate_merge_from_both_sides() -> None:
    assert strategy("join and aggregate", o=APPENDS, c=APPENDS).way is Way.MERGE


def test_changed_rows_below_counts_and_sums_merge_while_no_other_relation_changes() -> None:
    assert strategy("join and aggregate", o=ROWS).way is Way.MERGE
    assert strategy("join and aggregate", o=ROWS, c=APPENDS).way is Way.KEYS


def test_the_way_of_a_run_of_an_earlier_release_is_what_does_the_same_today() -> None:
    assert Way("signed") is Way.STAGES
    with pytest.raises(ValueError, match="other"):
        Way("other")


def test_the_column_that_counts_the_rows_of_a_group_is_found() -> None:
    assert shape_of(BY_NAME["aggregate"]).row_count == 1
    assert shape_of(BY_NAME["aggregate of a left join by left key"]).row_count is None
    assert shape_of(BY_NAME["count distinct of all"]).row_count is None


def test_the_rows_of_a_changed_source_name_the_keys_where_a_column_divides_the_result() -> None:
    choice = strategy("average", o=APPENDS)

    assert (choice.keys, choice.key_columns) == ((0,), {0: ("cid",)})


def test_the_query_names_the_keys_where_the_changed_source_does_not_have_them() -> None:
    choice = strategy("rollup", o=APPENDS)

    assert (choice.keys, choice.key_columns) == ((0, 1), {0: None})


def test_a_recomputation_says_what_stands_in_the_way_for_each_source() -> None:
    assert (
        strategy("limit", o=APPENDS).reason
        == "no column divides the result by the changed rows: o: LIMIT is above it"
    )
    assert strategy("not in", c=APPENDS).reason.endswith("c: it is on the optional side of a LeftAnti join")
    assert strategy("with in a subquery, twice", o=APPENDS).reason.endswith(
        "o: a view or a WITH query reads it in several places"
    )


def test_sums_that_do_not_combine_say_why() -> None:
    merge, doubles = shape_of(BY_NAME["try_sum"]).merge, shape_of(BY_NAME["sum of doubles"]).merge

    assert not isinstance(merge, str)
    assert not isinstance(doubles, str)
    told = "the sum t is NULL after an overflow, which does not combine"
    assert check_types(merge, TYPES["try_sum"], null_after_overflow=True) == told
    assert inexact_sum(merge, TYPES["try_sum"]) is None
    told = "the sum of doubles s depends on the order of the additions"
    assert inexact_sum(doubles, TYPES["sum of doubles"]) == told


def test_a_scalar_subquery_that_has_to_give_the_same_value_is_named_with_what_it_reads() -> None:
    told = "as long as scalar subqueries return the same values"
    alone, both = (strategy("scalar subquery", c=APPENDS, **changes) for changes in ({}, {"o": APPENDS}))

    assert (alone.way, alone.values) == (Way.NOTHING, frozenset({0}))
    assert alone.reason == f"only scalar subqueries read what changed, {told}"
    assert (both.way, both.values) == (Way.KEYS, frozenset({0}))
    assert both.reason.endswith(f", {told}")
    assert strategy("scalar subquery", o=APPENDS).values == frozenset()


def test_a_scalar_subquery_whose_old_version_has_expired_is_recomputed() -> None:
    assert strategy("scalar subquery", c=LOST).way is Way.RECOMPUTE
    assert (
        strategy("scalar subquery", c=SourceChange(kind=ChangeKind.APPENDS, base_live=False)).way
        is Way.RECOMPUTE
    )


def test_a_table_that_cannot_be_compared_does_no_harm_to_a_scalar_subquery_that_can() -> None:
    unknown = SourceChange(kind=ChangeKind.UNKNOWN, reason="values of column m cannot be compared")

    assert strategy("scalar subquery", c=unknown).way is Way.NOTHING


def test_the_first_rows_of_an_order_by_columns_of_the_table_are_found_among_them_and_appended_ones() -> None:
    choice = strategy("first rows of a join", o=APPENDS, c=APPENDS)

    assert (choice.way, choice.reason) == (Way.MERGE, "only appends below ORDER BY and LIMIT")
    assert choice.first == FirstRows(
        rows=9,
        order=(
            (0, "ASC NULLS FIRST"),
            (2, "DESC NULLS LAST"),
            (1, "ASC NULLS FIRST"),
            (3, "ASC NULLS FIRST"),
        ),
        reads=frozenset({0, 1}),
        total=True,
    )


@pytest.mark.parametrize("name", ["limit", "first rows of groups", "order and limit of a part"])
def test_first_rows_by_other_columns_or_of_groups_or_within_a_query_are_recomputed(name: str) -> None:
    assert strategy(name, **{"c" if name.startswith("order") else "o": APPENDS}).way is Way.RECOMPUTE
