"""How refreshes apply changes to the queries of TPC-H and TPC-DS, from their recorded plans."""

from __future__ import annotations

import json

from mt_core.incremental.plan import occurrences_below, read_plan
from tests.support import look_up_pages, stage_pages
from tests.support.tpc_plans import SUITES, recorded_queries
from tests.support.tpc_strategies import PAGE, page


def test_all_queries_of_both_suites_are_recorded() -> None:
    assert [len(recorded_queries(suite)) for suite in SUITES] == [22, 99]


def test_the_plan_of_each_query_has_all_readings_of_its_text() -> None:
    for suite in SUITES:
        for name, query in recorded_queries(suite).items():
            numbers = {
                number
                for plan in (query.plan, *query.subqueries)
                for number in occurrences_below(read_plan(plan))
            }
            assert numbers == set(range(len(query.readings))), (suite, name)


def test_the_ways_in_which_changes_are_applied_are_those_of_the_page() -> None:
    assert page().splitlines() == PAGE.read_text(encoding="utf-8").splitlines()


def test_the_stages_of_each_query_and_shape_are_those_of_their_page() -> None:
    page_of_stages = stage_pages.PAGE.read_text(encoding="utf-8")

    assert stage_pages.page().splitlines() == page_of_stages.splitlines()


def test_the_look_ups_of_each_state_are_those_of_their_page() -> None:
    page_of_look_ups = look_up_pages.PAGE.read_text(encoding="utf-8")

    assert look_up_pages.page().splitlines() == page_of_look_ups.splitlines()


def test_no_plan_reads_a_column_of_an_outer_query() -> None:
    texts = {
        name: json.dumps(query.plan) for suite in SUITES for name, query in recorded_queries(suite).items()
    }

    assert [name for name, text in texts.items() if "OuterReference" in text] == []
