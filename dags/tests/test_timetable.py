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

from freshtable_airflow.cron import cron_grid_of
from freshtable_airflow.grid import grid_of
from freshtable_airflow.timetable import ExpressionTimetable, GridTimetable, plan

GOLDEN = json.loads((Path(__file__).parents[2] / "tests" / "golden" / "grid.json").read_text())
CRONS = json.loads((Path(__file__).parents[2] / "tests" / "golden" / "cron.json").read_text())
SINCE = "2026-11-21T17:00:00+00:00"


def utc(text: str) -> pendulum.DateTime:
    return pendulum.instance(datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc))


def free(*, catchup: bool = False, earliest: str = "", latest: str = "") -> TimeRestriction:
    return TimeRestriction(utc(earliest) if earliest else None, utc(latest) if latest else None, catchup)


def planned(
    now: str, *, last: str = "", restriction: TimeRestriction | None = None, hours: int = 6
) -> str | None:
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


@pytest.mark.parametrize("case", CRONS, ids=lambda case: f"{case['cron']} {case['zone']} {case['instant']}")
def test_a_cron_has_the_points_of_the_gateway(case: dict[str, Any]) -> None:
    grid = cron_grid_of(case["cron"], case["zone"])

    assert grid.after(utc(case["instant"])) == utc(case["after"])
    assert grid.at_or_before(utc(case["instant"])) == utc(case["at_or_before"])


def test_a_cron_runs_at_its_points_after_the_table_was_created() -> None:
    weekdays = ExpressionTimetable(
        "0 6 * * MON-FRI", timezone="Europe/Berlin", since="2026-11-20T12:00:00+00:00"
    )
    friday = DataInterval.exact(utc("2999-11-22T05:00:00Z"))

    info = weekdays.next_dagrun_info(last_automated_data_interval=friday, restriction=free())

    assert info is not None
    assert info.run_after == utc("2999-11-25T05:00:00Z")
    assert info.data_interval == DataInterval.exact(utc("2999-11-25T05:00:00Z"))


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
    assert (
        planned("2026-11-21T17:30:00Z", last="2026-11-01T00:00:00Z", restriction=days)
        == "2026-11-01T06:00:00+00:00"
    )
    assert planned("2026-11-21T17:30:00Z", last="2026-11-01T06:00:00Z", restriction=days) is None


@pytest.mark.parametrize("cron", ["", "0 0 * * *"])
def test_a_timetable_survives_what_airflow_does_to_store_it(cron: str) -> None:
    timetable = GridTimetable(1, "DAY", timezone="Europe/Berlin", since=SINCE, cron=cron)

    stored = decode_timetable(encode_timetable(timetable))

    assert stored.serialize() == timetable.serialize()
    assert (stored.summary, stored.description) == (timetable.summary, timetable.description)


def test_a_cron_survives_what_airflow_does_to_store_it() -> None:
    timetable = ExpressionTimetable("0 6 * * MON-FRI", timezone="Europe/Berlin", since=SINCE)

    stored = decode_timetable(encode_timetable(timetable))

    assert stored.serialize() == timetable.serialize()
    assert stored.summary == f"0 6 * * MON-FRI (Europe/Berlin) since {SINCE}"
    assert (stored.description, stored.periodic) == (timetable.description, True)


def test_a_schedule_without_a_cron_is_stored_without_one() -> None:
    grid = {"amount": 90, "unit": "MINUTE", "timezone": "Europe/Berlin", "since": SINCE}

    assert GridTimetable(90, "MINUTE", timezone="Europe/Berlin", since=SINCE).serialize() == grid


def test_the_summaries_are_those_that_the_gateway_compares() -> None:
    grid = GridTimetable(90, "MINUTE", timezone="UTC", since=SINCE)
    cron = GridTimetable(1, "DAY", timezone="Europe/Berlin", since=SINCE, cron="0 0 * * *")

    assert grid.summary == f"every 90 MINUTE (UTC) since {SINCE}"
    assert cron.summary == f"0 0 * * * (Europe/Berlin) since {SINCE}"


def test_the_cron_is_a_label_and_says_nothing_about_the_points() -> None:
    labelled = GridTimetable(6, "HOUR", since=SINCE, cron="0 0 * * *")
    last = DataInterval.exact(utc("2999-01-01T00:00:00Z"))

    info = labelled.next_dagrun_info(last_automated_data_interval=last, restriction=free())

    assert info is not None
    assert info.run_after == utc("2999-01-01T06:00:00Z")


def test_people_are_shown_no_fraction_of_a_second() -> None:
    since = "2026-11-21T17:00:00.123456+00:00"

    assert (
        GridTimetable(90, "MINUTE", since=since).summary
        == "every 90 MINUTE (UTC) since 2026-11-21T17:00:00+00:00"
    )


def test_a_manual_run_has_its_instant_as_it_was_given() -> None:
    moment = utc("2026-11-21T03:30:00Z")

    timetable = GridTimetable(5, "HOUR", since=SINCE)

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
        (
            lambda: GridTimetable(1, "DAY", timezone="Europe/Atlantis", since=SINCE, cron="0 0 * * *"),
            "Europe/Atlantis",
        ),
        (lambda: GridTimetable(1, "DAY", since="2026-01-01T00:00:00"), "offset"),
        (lambda: ExpressionTimetable("0 0 30 2 *", timezone="UTC", since=SINCE), "0 0 30 2"),
        (lambda: ExpressionTimetable("0 0 0 * * *", timezone="UTC", since=SINCE), "five fields"),
        (
            lambda: ExpressionTimetable("0 6 * * *", timezone="Europe/Atlantis", since=SINCE),
            "Europe/Atlantis",
        ),
    ],
)
def test_a_timetable_that_cannot_be_says_why(timetable: Any, named: str) -> None:
    with pytest.raises(AirflowTimetableInvalid, match=named):
        timetable().validate()
