from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from threading import Event

import pytest

from mt_core.clock import SystemClock
from mt_core.config import load_config
from mt_core.model.finding import Finding, Level, clock_finding
from mt_core.setup.doctor import examine, is_well, lines
from mt_core.setup.machine import Machine
from mt_core.setup.outcomes import outcomes

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FINE = Finding.ok("java", "Java 17")
WORTH = Finding.note("home", "does not exist", "freshtable gateway")
WRONG = Finding.problem("port", "127.0.0.1:8083 is used by another program", "stop that program")


def header(instant: datetime) -> str:
    return format_datetime(instant, usegmt=True)


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        (0, "agrees with the clock of Airflow"),
        (-5, "agrees with the clock of Airflow"),
        (5, "agrees with the clock of Airflow"),
        (70, "the clock of Airflow is 69 s ahead of this machine's, and schedule times depend on the clock"),
        (-70, "the clock of Airflow is 69 s behind this machine's, and schedule times depend on the clock"),
    ],
)
def test_a_clock_is_judged_by_the_time_that_it_is_certainly_wrong(theirs: int, text: str) -> None:
    finding = clock_finding(
        "Airflow", header(NOON + timedelta(seconds=theirs)), NOON, NOON + timedelta(seconds=1)
    )

    assert (finding.text, finding.level is Level.PROBLEM) == (text, "agrees" not in text)


def test_a_slow_answer_does_not_make_a_clock_wrong() -> None:
    finding = clock_finding(
        "Airflow", header(NOON + timedelta(seconds=20)), NOON, NOON + timedelta(seconds=40)
    )

    assert finding == Finding.ok("clock", "agrees with the clock of Airflow")


@pytest.mark.parametrize("date", [None, "", "soon", "Sun, 99 Mar 2026 12:00:00 GMT"])
def test_an_answer_without_a_time_says_nothing_about_a_clock(date: str | None) -> None:
    assert clock_finding("Airflow", date, NOON, NOON) == Finding.note(
        "clock", "Airflow does not report its time"
    )


@pytest.mark.parametrize(
    ("findings", "well"), [([], True), ([FINE, WORTH], True), ([FINE, WRONG], False), ([WRONG], False)]
)
def test_only_a_problem_means_that_all_is_not_well(findings: Sequence[Finding], well: bool) -> None:
    assert is_well(findings) is well


def test_each_finding_is_a_line_with_its_way_out_below() -> None:
    assert list(lines([FINE, WORTH, WRONG])) == [
        "ok      java         Java 17",
        "note    home         does not exist",
        "                     -> freshtable gateway",
        "problem port         127.0.0.1:8083 is used by another program",
        "                     -> stop that program",
    ]


def test_works_side_by_side_have_their_results_their_errors_or_no_time_left() -> None:
    never = Event()
    works: dict[str, Callable[[], int]] = {
        "one": lambda: 1,
        "bad": lambda: 1 // 0,
        "slow": lambda: int(never.wait()),
    }

    found = outcomes(works, 1.0)

    never.set()
    assert [*found] == ["one", "bad", "slow"]
    assert found["one"] == 1
    assert isinstance(found["bad"], ZeroDivisionError)
    assert str(found["slow"]) == "no answer within 1 s"


def test_works_do_not_wait_for_each_other() -> None:
    met = Event()

    def meet() -> bool:
        met.set()
        return True

    found = outcomes({"waits": lambda: met.wait(30), "comes": meet}, 30)

    assert found == {"waits": True, "comes": True}


def test_a_check_that_hangs_or_fails_is_a_problem_and_the_others_are_told() -> None:
    machine = Machine(config=load_config(), environ={}, clock=SystemClock())
    never = Event()

    def hang(_machine: Machine) -> list[Finding]:
        never.wait()
        return []

    def fail(_machine: Machine) -> list[Finding]:
        raise KeyError("port")

    found = examine(machine, {"hangs": hang, "java": lambda _machine: [FINE], "fails": fail}, limit_s=1.0)

    never.set()
    assert [(each.subject, each.level) for each in found] == [
        ("hangs", Level.PROBLEM),
        ("java", Level.OK),
        ("fails", Level.PROBLEM),
    ]
    assert found[0].text == "the check did not finish: no answer within 1 s"
    assert found[2].text == "the check failed: KeyError: 'port'"
