"""The duration of each test module, by which parallel processes run the longest modules first.

Each run of a target writes the durations of its tests to `build/tests`. Run as a module, this collects them
in `durations.json`. That file is committed, because the order needs only rough figures.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".json")
RESULTS = Path("build", "tests")
# Shorter modules run after all others, in any order.
LEAST_S = 5
# Modules that share a gateway run in one process, which starts it once.
CLIENTS = (
    "tests/integration/flink_client/",
    "tests/integration/test_client_on_spark.py",
    "tests/integration/test_readers.py",
)


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with the longest units first; the order within a unit is preserved."""
    known: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    taken: dict[str, int] = defaultdict(int)
    for module, seconds in known.items():
        taken[unit(module)] += seconds
    return sorted(items, key=lambda item: -taken[unit(item.nodeid)])


def unit(test: str) -> str:
    """Return the unit of a test, which one process runs as a whole: its module, or all client modules."""
    module = test.partition("::")[0]
    return "clients" if module.startswith(CLIENTS) else module


def main() -> int:
    """Update the file with the durations of the last results; modules that did not run retain theirs."""
    known: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    taken: dict[str, float] = defaultdict(float)
    # Tests with Airflow run in one process, in their own order.
    for results in set((ROOT / RESULTS).glob("*.xml")).difference((ROOT / RESULTS).glob("*-airflow.xml")):
        for case in ElementTree.parse(results).iter("testcase"):
            taken[_of_class(case.attrib["classname"])] += float(case.attrib["time"])
    seconds = known | {module: round(s) for module, s in taken.items()}
    kept = {module: s for module, s in sorted(seconds.items()) if s >= LEAST_S and (ROOT / module).exists()}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


def _of_class(name: str) -> str:
    """Return the module path of a dotted test name, which may end with a class."""
    parts = name.split(".")
    return next(
        "/".join(parts[:end]) + ".py"
        for end in range(1, len(parts) + 1)
        if parts[end - 1].startswith("test_")
    )


if __name__ == "__main__":
    sys.exit(main())
