"""The gauges of tables say what the overview says, within their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mt_core.errors import FactUnreadable
from mt_core.metrics.families import TABLE_LABELS
from mt_core.metrics.tables import TableGauges, TableSelection
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus, SuspendedBy, TableIdentifier
from mt_core.tables.overview.facts import LastRun, TableFacts
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable
from tests.support.registry_facts import HOUR, NOON
from tests.support.scrape import Scrape
from tests.support.table_facts import table_facts

SHOWS, LATE_AT = "freshtable_table_shows_timestamp_seconds", "freshtable_table_late_at_timestamp_seconds"
SUSPENDED, FAILING = "freshtable_table_suspended", "freshtable_table_failing"


def scrape(
    *tables: TableFacts | UnreadableTable, patterns: Sequence[str] = ("*",), most: int = 1000
) -> Scrape:
    gauges = TableGauges(TableSelection(patterns=tuple(patterns), most=most))
    return Scrape.of(gauges.text(tables))


def with_series(found: Scrape) -> list[str]:
    return [name for (name,) in found.by(SUSPENDED, "table_name")]


def last_run(status: RunStatus) -> LastRun:
    return LastRun(
        run_id="r",
        status=status,
        kind="PERIODIC",
        requested_at=NOON,
        started_at=NOON,
        finished_at=NOON,
        strategy=None,
        rows=None,
        reason=None,
        reason_code=None,
        error=None,
        attempt=1,
    )


# ----------------------------------------------------------------------------------------------------- counts


def test_every_state_and_mode_is_counted_also_those_that_no_table_has() -> None:
    found = scrape(
        table_facts("a"),
        table_facts("b"),
        table_facts("c", mode=RefreshMode.CONTINUOUS, state=State.LATE, fault=Fault.QUEUE),
    ).by("freshtable_tables", "state", "mode")

    assert len(found) == len(State) * len(RefreshMode)
    assert {key: count for key, count in found.items() if count} == {
        ("OK", "FULL"): 2.0,
        ("LATE", "CONTINUOUS"): 1.0,
    }


def test_a_table_that_is_late_is_counted_under_its_fault() -> None:
    found = scrape(
        table_facts("a", state=State.LATE, fault=Fault.QUERY),
        table_facts("b", state=State.LATE, fault=Fault.QUERY),
        table_facts("c", state=State.LATE, fault=Fault.SOURCE),
        table_facts("d", fault=Fault.WRITER),
    )

    assert found.by("freshtable_tables_late", "fault") == {
        ("source",): 1.0,
        ("queue",): 0.0,
        ("query",): 2.0,
        ("schedule",): 0.0,
    }
    assert found.total("freshtable_tables_silent") == 1


def test_a_table_that_cannot_be_read_is_counted_apart_and_has_no_series() -> None:
    unreadable = UnreadableTable(
        identifier=TableIdentifier("lake", ("shop",), "broken"),
        error=FactUnreadable("damaged", columns={"table_id": "t"}),
    )

    found = scrape(unreadable, table_facts("a"))

    assert found.total("freshtable_tables_unreadable") == 1
    assert sum(found.by("freshtable_tables").values()) == 1
    assert with_series(found) == ["a"]


def test_without_tables_all_counts_are_zero() -> None:
    found = scrape()

    assert {sample.value for family in found.families for sample in family.samples} == {0.0}
    assert with_series(found) == []


# ------------------------------------------------------------------------------------------------ each table


def test_a_table_has_the_instants_that_it_shows_and_from_which_it_is_late() -> None:
    shows, late_at = NOON + timedelta(seconds=0.25), NOON + HOUR

    found = scrape(table_facts("daily", shows=shows, late_at=late_at))

    name = ("lake", "shop", "daily")
    assert found.by(SHOWS, *TABLE_LABELS) == {name: shows.timestamp()}
    assert found.by(LATE_AT, *TABLE_LABELS) == {name: late_at.timestamp()}
    assert found.by(SUSPENDED, *TABLE_LABELS) == {name: 0.0}
    assert found.by(FAILING, *TABLE_LABELS) == {}


def test_an_instant_that_does_not_exist_is_no_sample() -> None:
    found = scrape(
        table_facts("new", shows=None),
        table_facts("resting", late_at=None, status=RefreshStatus.SUSPENDED, state=State.SUSPENDED),
    )

    assert list(found.by(SHOWS, "table_name")) == [("resting",)]
    assert list(found.by(LATE_AT, "table_name")) == [("new",)]
    assert found.by(SUSPENDED, "table_name") == {("new",): 0.0, ("resting",): 1.0}


def test_the_levels_of_a_namespace_are_one_label() -> None:
    nested = table_facts(identifier=TableIdentifier("lake", ("shop", "eu.west"), 'say "hi"\\\n'))

    found = scrape(nested)

    assert list(found.by(SHOWS, *TABLE_LABELS)) == [("lake", "shop.`eu.west`", 'say "hi"\\\n')]


SUSPENSION: dict[str, Any] = {
    "status": RefreshStatus.SUSPENDED,
    "state": State.SUSPENDED,
    "suspended_by": SuspendedBy.USER,
    "last": last_run(RunStatus.FAILED),
}


@pytest.mark.parametrize(
    ("facts", "is_failing"),
    [
        ({}, False),
        ({"last": last_run(RunStatus.SUCCEEDED)}, False),
        ({"last": last_run(RunStatus.FAILED), "state": State.FAILING}, True),
        ({"last": last_run(RunStatus.FAILED), "state": State.LATE}, True),
        ({"state": State.FAILING}, True),
        (SUSPENSION, False),
        ({**SUSPENSION, "suspended_by": SuspendedBy.FAILURES}, True),
        ({**SUSPENSION, "suspended_by": SuspendedBy.JOB}, True),
    ],
)
def test_a_table_fails_if_its_last_refresh_failed_or_the_gateway_suspended_it(
    facts: dict[str, Any], is_failing: bool
) -> None:
    found = scrape(table_facts("a", **facts))

    assert found.by(FAILING, "table_name") == ({("a",): 1.0} if is_failing else {})


# ----------------------------------------------------------------------------------------------------- limits


def test_the_oldest_tables_have_series_and_the_others_are_counted() -> None:
    tables = [
        table_facts(name, created_at=NOON + timedelta(days=age)) for age, name in enumerate("dbca", start=1)
    ]

    found = scrape(*sorted(tables, key=lambda table: table.identifier), most=2)

    assert sorted(with_series(found)) == ["b", "d"]
    assert found.total("freshtable_tables_without_series") == 2
    assert sum(found.by("freshtable_tables").values()) == 4


def test_a_new_table_takes_the_series_of_no_other_and_gets_them_when_an_old_one_is_dropped() -> None:
    old, older = (
        table_facts("old", created_at=NOON),
        table_facts("older", created_at=NOON - HOUR),
    )
    new = table_facts("a", created_at=NOON + HOUR)
    gauges = TableGauges(TableSelection(most=2))

    before = with_series(Scrape.of(gauges.text([old, older])))
    after_create = with_series(Scrape.of(gauges.text([new, old, older])))
    after_drop = with_series(Scrape.of(gauges.text([new, older])))

    assert sorted(before) == sorted(after_create) == ["old", "older"]
    assert sorted(after_drop) == ["a", "older"]


def test_tables_of_the_same_age_always_have_series_in_the_same_order() -> None:
    tables = [table_facts(name) for name in "cab"]

    assert {tuple(with_series(scrape(*order, most=2))) for order in (tables, tables[::-1])} == {("a", "b")}


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["*"], ["Daily", "daily.x", "weekly"]),
        (["lake.shop.daily*"], ["daily.x"]),
        (["lake.*.weekly", "lake.*.Daily"], ["Daily", "weekly"]),
        (["lake.shop.?eekly"], ["weekly"]),
        (["shop"], []),
        ([], []),
    ],
)
def test_only_tables_whose_full_name_matches_have_series(patterns: list[str], names: list[str]) -> None:
    found = scrape(*map(table_facts, ["Daily", "daily.x", "weekly"]), patterns=patterns)

    assert with_series(found) == names
    assert found.total("freshtable_tables_without_series") == 0
    assert sum(found.by("freshtable_tables").values()) == 3


def test_no_table_has_series_if_the_limit_is_zero() -> None:
    found = scrape(table_facts("a"), most=0)

    assert with_series(found) == []
    assert found.total("freshtable_tables_without_series") == 1


def test_new_facts_of_a_table_replace_its_lines() -> None:
    gauges, table = TableGauges(TableSelection()), table_facts("a")
    gauges.text([table])

    found = Scrape.of(gauges.text([replace(table, late_at=NOON + 5 * HOUR)]))

    assert found.by(LATE_AT, "table_name") == {("a",): (NOON + 5 * HOUR).timestamp()}
