"""Which queries end with a LIMIT whose order follows from the columns of the result."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.first_rows import Limit, limit_of
from mt_core.incremental.strategy import StoredRows, Way, choose_first_rows
from tests.support.blocks import block_over
from tests.support.recorded_plans import Plan, recorded_trees
from tests.support.tpc_plans import recorded_queries

TREES = recorded_trees()
TPC: Mapping[str, list[Plan]] = {
    f"{suite} {name}": query.trees
    for suite in ("tpch", "tpcds")
    for name, query in recorded_queries(suite).items()
}


def test_a_limit_is_described_by_positions_of_columns_of_the_result() -> None:
    assert limit_of(read_plan(TREES["first rows"][0])) == Limit(
        rows=6,
        order=(
            (0, "DESC NULLS LAST"),
            (1, "ASC NULLS FIRST"),
            (3, "ASC NULLS FIRST"),
            (2, "ASC NULLS FIRST"),
        ),
        total=True,
        place="[0,[0,0,0]]",
        columns=(0, 1, 2, 3),
    )


def test_an_order_by_a_column_of_a_source_that_the_result_has_by_another_name_follows_from_the_result() -> (
    None
):
    assert limit_of(read_plan(TPC["tpcds q84"][0])) == Limit(
        rows=100,
        order=((0, "ASC NULLS FIRST"),),
        total=False,
        place="[0,[0,0,0,0]]",
        columns=(0, 1),
    )


@pytest.mark.parametrize("name", ["limit", "projection", "distinct"])
def test_other_queries_have_no_first_rows(name: str) -> None:
    assert limit_of(read_plan(TREES[name][0])) is None


def test_an_order_by_an_expression_does_not_follow_from_the_result() -> None:
    limits = {
        name: limit_of(read_plan(trees[0]))
        for name, trees in TPC.items()
        if trees[0][0]["class"].endswith("GlobalLimit")
    }

    others = {name.removeprefix("tpcds q") for name, first in limits.items() if first is None}
    assert others == {"36", "47", "57", "70", "79", "86", "89"}


@pytest.mark.parametrize(("rows", "way"), [(MOST_LOCAL - 1, Way.STAGES), (MOST_LOCAL, Way.RECOMPUTE)])
def test_more_first_rows_than_the_driver_holds_do_not_follow_from_a_change(rows: int, way: Way) -> None:
    limit = Limit(rows=rows, order=((0, "ASC NULLS FIRST"),), total=True, place="[0,[0,0]]", columns=(0,))
    appended = {0: SourceChange(kind=ChangeKind.APPENDS)}
    stored = StoredRows(columns=["k"], usable=(0,))

    choice = choose_first_rows(block_over(0), limit, appended, stored=stored, relations=["o"])

    assert choice.way is way
