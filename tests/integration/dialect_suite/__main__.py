"""Runs SQLAlchemy's own suite for dialects against a gateway: `python -m tests.integration.dialect_suite URL CASES [-k …]`.

In a process of its own: SQLAlchemy's plug-in changes how pytest collects, and our settings of pytest are not for its tests. A test
with parameters ends with the case that is the CASES-th to pass; 0 runs all.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Sample:
    """A plug-in that skips what is left of a test once so many cases of it have passed."""

    cases: int
    _passed: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._passed[_test_of(item.nodeid)] >= self.cases:
            pytest.skip("other cases of this test have passed")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed[_test_of(report.nodeid)] += 1


def _test_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


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
