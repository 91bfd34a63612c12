"""Runs SQLAlchemy's own suite for dialects against a gateway: `python -m tests.integration.dialect_suite URL CASES [-k …]`.

In a process of its own: SQLAlchemy's plug-in changes how pytest collects, and our settings of pytest are not for its tests. A test
with parameters ends with the case that is the CASES-th to pass, and a group of tests that our code has no part in with the second
test; 0 runs all.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry

FOLDER = Path(__file__).parent
OURS = frozenset(
    {
        # The reflection, and the names that it is asked for.
        *("ComponentReflectionTest", "ComponentReflectionTestExtra", "HasTableTest", "QuotedNameArgumentTest"),
        *("BizarroCharacterTest", "UnicodeSchemaTest"),
        # What the compilers of the dialect write themselves.
        *("TableDDLTest", "FetchLimitOffsetTest", "ExpandingBoundInTest", "EscapingTest"),
        # Each type as a column, as a parameter and as a literal; the other groups are variants of these.
        *("BinaryTest", "BooleanTest", "DateTest", "DateTimeTest", "DateTimeTZTest", "EnumTest", "IntegerTest"),
        *("NumericTest", "StringTest", "TextTest", "TimestampMicrosecondsTest", "UuidTest"),
    }
)
"""The groups that try code of the dialect. The statements of the others are written by SQLAlchemy, and two tests are the sample."""
SAMPLE = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """A plug-in that skips what is left of a test once so many cases of it have passed, and of a group once its sample has."""

    cases: int
    _passed: Counter[str] = field(default_factory=Counter)
    _tests: dict[str, set[str]] = field(default_factory=dict)

    # Before the tables of the group are made.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        group, test = _group_and_test(item.nodeid)
        if self._passed[test] >= self.cases:
            pytest.skip("other cases of this test have passed")
        if group not in OURS and len(self._tests.get(group, ())) >= SAMPLE:
            pytest.skip("other tests of this group have passed")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            group, test = _group_and_test(report.nodeid)
            self._passed[test] += 1
            self._tests.setdefault(group, set()).add(test)


def _group_and_test(nodeid: str) -> tuple[str, str]:
    """Return the name of the class, as the suite has it, and that of the test without its parameters."""
    test = nodeid.partition("[")[0]
    return test.split("::")[1].partition("_")[0], test


def main(url: str, cases: str, *options: str) -> int:
    for name in ("freshtable", "freshtable.gateway"):
        registry.register(name, "mt_core.client.dialect", "FreshtableDialect")
    return pytest.main(
        [
            str(FOLDER / "suite.py"),
            *("-c", str(FOLDER / "setup.cfg"), "--rootdir", str(FOLDER), "-p", "no:cacheprovider"),
            *("-p", "sqlalchemy.testing.plugin.pytestplugin", "--dburi", url),
            *options,
        ],
        plugins=[Sample(int(cases))] if int(cases) else [],
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
