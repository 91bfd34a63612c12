from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.exceptions import AirflowTimetableInvalid
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import DataInterval, TimeRestriction

from freshtable_airflow.grid import grid_of, grid_of_cron
from freshtable_airflow.timetable import CronTimetable, GridTimetable, plan

GOLDEN = json.loads((Path(__file__).parents[2] / "tests" / "golden" / "grid.json").read_text())
SINCE = "2026-11-21T17:00:00+00:00"
CRONS = {
    "1 DAY": "0 0 * * *",
    "24 HOUR": "0 0 * * *",
    "1 WEEK": "0 0 * * 1",
    "20 MINUTE": "*/20 * * * *",
    "30 MINUTE": "*/30 * * * *",
    "1 HOUR": "0 * * * *",
    "2 HOUR": "0 */2 * * *",
    "3 HOUR": "0 */3 * * *",
    "4 HOUR": "0 */4 * * *",
    "6 HOUR": "0 */6 * * *",
    "12 HOUR": "0 */12 * * *",
}


def utc(text: str) -> pendulum.DateTime:
    return pendulum.instance(datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc))


def free(*, catchup: bool = False, earliest: str = "", latest: str = "") -> TimeRestriction:
    return TimeRestriction(utc(earliest) if earliest else None, utc(latest) if latest else None, catchup)


def planned(now: str, *, last: str = "", restriction: TimeRestriction | None = None, hours: int = 6) -> str | None:
    interval = DataInterval.exact(utc(last)) if last else None
    found = plan(grid_of(hours, "HOUR", "UTC"), utc(SINCE), interval, restriction or free(), utc(now))
    return found.isoformat() if found else None


def case_id(case: dict[str, Any]) -> str:
    return f"{case['freshness']} {case['zone']} {case['instant']}"


@pytest.mark.parametrize("case", GOLDEN, ids=case_id)
def test_grid_has_the_points_of_the_gateway(case: dict[str, Any]) -> None:
    amount, unit = case["freshness"].split()
    grid = grid_of(int(amount), unit, case["zone"])

    assert grid.after(utc(case["instant"])) == utc(case["after"])
    assert grid.at_or_before(utc(case["instant"])) == utc(case["at_or_before"])


@pytest.mark.parametrize("case", [case for case in GOLDEN if case["freshness"] in CRONS], ids=case_id)
def test_a_cron_that_says_an_interval_has_the_points_of_the_gateway_when_the_clock_changes_too(
    case: dict[str, Any],
) -> None:
    timetable = CronTimetable(CRONS[case["freshness"]], timezone=case["zone"], since=SINCE)

    assert timetable.points.after(utc(case["instant"])) == utc(case["after"])
    assert timetable.points.at_or_before(utc(case["instant"])) == utc(case["at_or_before"])


@pytest.mark.parametrize("cron", ["*/7 * * * *", "0 */5 * * *", "15 3 * * *", "0 0 1 * *", "0 0 * * 2"])
def test_other_crons_say_no_interval(cron: str) -> None:
    assert grid_of_cron(cron, "UTC") is None


def test_other_crons_have_the_points_that_airflow_finds() -> None:
    points = CronTimetable("15 3 * * 2", timezone="Europe/Berlin", since=SINCE).points

    assert points.after(utc("2026-11-22T00:00:00Z")) == utc("2026-11-24T02:15:00Z")
    assert points.at_or_before(utc("2026-11-24T02:15:00Z")) == utc("2026-11-24T02:15:00Z")
    assert points.at_or_before(utc("2026-11-24T02:14:59Z")) == utc("2026-11-17T02:15:00Z")


def test_nothing_is_run_at_once_and_the_first_tick_is_kept_while_the_scheduler_is_away() -> None:
    assert planned("2026-11-21T17:00:01Z") == "2026-11-21T18:00:00+00:00"
    assert planned("2026-11-21T18:30:00Z") == "2026-11-21T18:00:00+00:00"


def test_of_many_missed_points_the_newest_is_run() -> None:
    assert planned("2026-11-23T13:00:00Z", last="2026-11-21T18:00:00Z") == "2026-11-23T12:00:00+00:00"


def test_a_backfill_of_the_past_does_not_make_the_newest_past_point_due() -> None:
    assert planned("2026-11-21T17:30:00Z", last="2026-11-20T06:00:00Z") == "2026-11-21T18:00:00+00:00"


def test_a_backfill_gets_the_points_of_its_range_from_before_the_table_was_made_too() -> None:
    days = free(catchup=True, earliest="2026-11-01T00:00:00Z", latest="2026-11-01T06:00:00Z")

    assert planned("2026-11-21T17:30:00Z", restriction=days) == "2026-11-01T00:00:00+00:00"
    assert planned("2026-11-21T17:30:00Z", last="2026-11-01T00:00:00Z", restriction=days) == "2026-11-01T06:00:00+00:00"
    assert planned("2026-11-21T17:30:00Z", last="2026-11-01T06:00:00Z", restriction=days) is None


def test_both_timetables_survive_what_airflow_does_to_store_them() -> None:
    grid = GridTimetable(90, "MINUTE", timezone="Europe/Berlin", since=SINCE)
    cron = CronTimetable("0 0 * * *", timezone="Europe/Berlin", since=SINCE)

    assert GridTimetable.deserialize(grid.serialize()).serialize() == grid.serialize()
    assert CronTimetable.deserialize(cron.serialize()).serialize() == cron.serialize()
    assert decode_timetable(encode_timetable(grid)).summary == grid.summary
    assert decode_timetable(encode_timetable(cron)).summary == cron.summary


def test_the_summaries_are_those_that_the_gateway_compares() -> None:
    grid = GridTimetable(90, "MINUTE", timezone="UTC", since=SINCE)
    cron = CronTimetable("0 0 * * *", timezone="Europe/Berlin", since=SINCE)

    assert grid.summary == f"every 90 MINUTE (UTC) since {SINCE}"
    assert cron.summary == f"0 0 * * * (Europe/Berlin) since {SINCE}"


def test_people_are_shown_no_fraction_of_a_second() -> None:
    since = "2026-11-21T17:00:00.123456+00:00"

    assert GridTimetable(90, "MINUTE", since=since).summary == "every 90 MINUTE (UTC) since 2026-11-21T17:00:00+00:00"
    assert CronTimetable("0 0 * * *", timezone="UTC", since=since).summary.endswith("since 2026-11-21T17:00:00+00:00")


def test_a_manual_run_has_its_instant_as_it_was_given() -> None:
    moment = utc("2026-11-21T03:30:00Z")

    for timetable in (GridTimetable(5, "HOUR", since=SINCE), CronTimetable("0 0 * * *", timezone="UTC", since=SINCE)):
        assert timetable.infer_manual_data_interval(run_after=moment) == DataInterval.exact(moment)


def test_a_grid_without_a_beginning_is_never_due() -> None:
    never = GridTimetable(1, "DAY")

    assert never.next_dagrun_info(last_automated_data_interval=None, restriction=free()) is None
    assert not never.can_be_scheduled
    assert never.summary == "never"


@pytest.mark.parametrize(
    ("timetable", "named"),
    [
        (lambda: GridTimetable(0, "DAY", since=SINCE), "0 DAY"),
        (lambda: GridTimetable(1, "FORTNIGHT", since=SINCE), "FORTNIGHT"),
        (lambda: GridTimetable(1, "DAY", timezone="Europe/Atlantis", since=SINCE), "Europe/Atlantis"),
        (lambda: GridTimetable(1, "DAY", since="yesterday"), "yesterday"),
        (lambda: CronTimetable("0 0 * * *", timezone="Europe/Atlantis", since=SINCE), "Europe/Atlantis"),
        (lambda: CronTimetable("0 0 * * *", timezone="UTC", since="2026-01-01T00:00:00"), "offset"),
        (lambda: CronTimetable("61 0 * * *", timezone="UTC", since=SINCE), "61"),
    ],
)
def test_a_timetable_that_cannot_be_says_why(timetable: Any, named: str) -> None:
    with pytest.raises(AirflowTimetableInvalid, match=named):
        timetable().validate()
