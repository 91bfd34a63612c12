"""Which grid points are due, which partitions they mean, and how far the watermark goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.model.freshness import Freshness, grid_of
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.table import Column, MaterializedTable, RefreshMode, TableDefinition, TableIdentifier
from mt_core.tables.runs.due import cover, due_share, is_due, scope_of
from tests.support.grid_points import points_between

START = datetime(2026, 3, 27, 13, 30, tzinfo=UTC)


DAILY = Freshness(1, "DAY")


def table(
    *, freshness: Freshness = DAILY, zone: str = "UTC", formatters: dict[str, str] | None = None
) -> MaterializedTable:
    patterns = {"ds": "yyyy-MM-dd"} if formatters is None else formatters
    definition = TableDefinition(
        columns=(Column(name="ds", type="string"), Column(name="hh", type="string")),
        original_query="SELECT 1",
        expanded_query="SELECT 1",
        freshness=freshness,
        refresh_mode=RefreshMode.FULL,
        logical_refresh_mode="FULL",
        zone=zone,
        partition_keys=tuple(patterns),
        options={
            f"partition.fields.{column}.date-formatter": pattern for column, pattern in patterns.items()
        },
    )
    return MaterializedTable(
        table_id="t",
        identifier=TableIdentifier("lake", ("default",), "t"),
        definition=definition,
        created_at=START,
        status_at=START,
        location="",
        covered_until=START,
    )


freshnesses = st.sampled_from(
    [
        Freshness(1, "DAY"),
        Freshness(2, "DAY"),
        Freshness(6, "HOUR"),
        Freshness(5, "HOUR"),
        Freshness(1, "HOUR"),
    ]
)
zones = st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/Santiago"])


@st.composite
def histories(draw: st.DrawFn) -> tuple[MaterializedTable, list[datetime], datetime, list[datetime]]:
    """A table, some of its points, an instant, and all its points up to that instant."""
    made = table(freshness=draw(freshnesses), zone=draw(zones))
    until = START + timedelta(hours=draw(st.integers(min_value=0, max_value=24 * 12)))
    grid = grid_of(made.definition.freshness, made.definition.zone)
    points = points_between(grid, made.covered_until, until)
    chosen = draw(st.lists(st.sampled_from(points))) if points else []
    return made, chosen, until, points


@settings(max_examples=40, deadline=None)
@given(histories())
def test_every_point_since_the_watermark_is_covered_or_due_and_never_both(history) -> None:
    made, covered, until, points = history

    known = cover(made, covered)
    share = due_share(known, until, max_partitions=1000)

    assert share.rest is None
    assert list(share.points) == sorted(set(points) - set(covered), reverse=True)
    assert all(is_due(known, point) == (point not in covered) for point in points)


@settings(max_examples=40, deadline=None)
@given(histories(), st.integers(min_value=1, max_value=5))
def test_shares_taken_one_after_the_other_give_every_due_point_once_and_none_is_too_large(
    history, limit: int
) -> None:
    made, covered, until, points = history
    taken: list[datetime] = []
    rest: datetime | None = until

    while rest is not None:
        share = due_share(cover(made, [*covered, *taken]), rest, max_partitions=limit)
        assert len(scope_of(made, share.points).specs or ()) <= limit
        taken.extend(share.points)
        rest = share.rest

    assert taken == sorted(set(points) - set(covered), reverse=True)


@settings(max_examples=40, deadline=None)
@given(histories())
def test_the_watermark_passes_no_point_that_is_not_covered_and_every_point_that_is(history) -> None:
    made, covered, _, points = history

    mark = cover(made, covered).covered_until

    assert {point for point in points if point <= mark} <= set(covered)
    grid = grid_of(made.definition.freshness, made.definition.zone)
    assert grid.after(mark) not in covered
    assert mark >= made.covered_until


@settings(max_examples=40, deadline=None)
@given(histories())
def test_points_covered_one_after_the_other_in_any_order_leave_the_same_due_as_all_at_once(history) -> None:
    made, covered, until, _ = history
    grown = made
    for index in range(0, len(covered), 3):
        grown = cover(grown, covered[index : index + 3])

    at_once = cover(made, covered)

    assert grown == at_once
    gaps = len(due_share(grown, until, max_partitions=1000).points)
    assert len(grown.covered) <= gaps


def test_covering_nothing_new_gives_the_table_itself() -> None:
    made = table()

    assert cover(made, []) is made
    assert cover(made, [START]) is made


def test_points_left_out_are_not_taken() -> None:
    made = table()
    first, second = datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 29, tzinfo=UTC)

    share = due_share(made, second, max_partitions=10, without={first})

    assert share.points == (second,)


def test_points_off_the_grid_or_not_after_the_watermark_are_not_due() -> None:
    made = table()
    midnight = datetime(2026, 3, 28, tzinfo=UTC)

    due = [
        is_due(made, point)
        for point in (midnight, midnight - timedelta(days=1), midnight + timedelta(hours=1))
    ]

    assert due == [True, False, False]


def test_a_table_without_formatters_has_one_scope_the_whole_table() -> None:
    assert scope_of(table(formatters={}), [START]) == WHOLE


@pytest.mark.parametrize(
    ("zone", "point", "expected"),
    [
        ("UTC", datetime(2026, 3, 30, tzinfo=UTC), "2026-03-29"),
        ("Europe/Berlin", datetime(2026, 3, 29, 22, tzinfo=UTC), "2026-03-29"),
        ("Asia/Tokyo", datetime(2026, 3, 29, 15, tzinfo=UTC), "2026-03-29"),
    ],
)
def test_a_point_means_the_day_before_it_in_the_zone_of_the_table(
    zone: str, point: datetime, expected: str
) -> None:
    assert scope_of(table(zone=zone), [point]) == Scope.of([PartitionSpec.of({"ds": expected})])


def test_a_long_absence_is_shared_out_by_partitions_not_by_points() -> None:
    made = table(freshness=Freshness(1, "HOUR"))
    until = START + timedelta(days=10)

    share = due_share(made, until, max_partitions=3)

    assert len(scope_of(made, share.points).specs or ()) == 3
    assert len(share.points) > 48
    assert share.rest is not None
    assert share.rest < min(share.points)
