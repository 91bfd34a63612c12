"""Each test has a target that runs it, and a command that asks for several targets runs it once."""

from __future__ import annotations

from collections import Counter
from itertools import compress, product

import pytest
from _pytest.mark.expression import Expression

from tests import run

Marks = tuple[str, ...]
MARKS = ("spark", "airflow", "processes", "slow", "kills")
CI = ("check", "test", "test-slow")
TESTS = [tuple(compress(MARKS, chosen)) for chosen in product((False, True), repeat=len(MARKS))]


def expressions(*targets: str) -> list[str]:
    """Return the pytest mark expressions of a command with these targets."""
    others = [target for target in targets if target != "test" or "test-slow" not in targets]
    commands = [
        command for target in others for part in run.parts(target, targets) for command in part.commands
    ]
    of_pytest = [list(command[command.index("pytest") + 1 :]) for command in commands if "pytest" in command]
    return [arguments[arguments.index("-m") + 1] for arguments in of_pytest if "-m" in arguments]


def runs(marks: Marks, *targets: str) -> int:
    return sum(
        Expression.compile(each).evaluate(lambda name, **_: name in marks) for each in expressions(*targets)
    )


@pytest.mark.parametrize("marks", TESTS, ids=" ".join)
def test_ci_runs_each_test_but_the_kills_once(marks: Marks) -> None:
    assert runs(marks, *CI) == ("kills" not in marks)


@pytest.mark.parametrize("marks", TESTS, ids=" ".join)
def test_each_test_is_run_by_one_target(marks: Marks) -> None:
    times = Counter({target: runs(marks, target) for target in ("test", "test-slow", "test-kills")})

    assert sorted(times.values()) == [0, 0, 1]


@pytest.mark.parametrize("marks", TESTS, ids=" ".join)
def test_check_and_test_run_no_test_twice(marks: Marks) -> None:
    assert runs(marks, "check", "test") == runs(marks, "test")
