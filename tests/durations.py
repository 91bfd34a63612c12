"""How long each module of tests took: where several processes share the modules,
the longest ones begin first.

Each run of a target leaves the seconds of its tests in `build/tests`. Run as a module this writes them to
`durations.json`, which is committed: the order needs no exact figures, only the long modules at the front.
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
# Modules that take less follow all others, in no order.
LEAST_S = 5
# The modules that share a gateway are in one process, which starts it once.
CLIENTS = ("tests/integration/flink_client/", "tests/integration/test_client_on_spark.py")


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in an order in which the units that took longest come first,
    each whole and in its own order.
    """
    known: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    taken: dict[str, int] = defaultdict(int)
    for module, seconds in known.items():
        taken[unit(module)] += seconds
    return sorted(items, key=lambda item: -taken[unit(item.nodeid)])


def unit(test: str) -> str:
    """Return the name of what one process runs as a whole: the module of a test,
    or all modules of clients.
    """
    module = test.partition("::")[0]
    return "clients" if module.startswith(CLIENTS) else module


def main() -> int:
    """Write the seconds of the modules in the last results to the file;
    those of modules that did not run stay.
    """
    known: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    taken: dict[str, float] = defaultdict(float)
    # Tests with Airflow run in one process, in an order of their own.
    for results in set((ROOT / RESULTS).glob("*.xml")).difference((ROOT / RESULTS).glob("*-airflow.xml")):
        for case in ElementTree.parse(results).iter("testcase"):
            taken[_of_class(case.attrib["classname"])] += float(case.attrib["time"])
    seconds = known | {module: round(s) for module, s in taken.items()}
    kept = {module: s for module, s in sorted(seconds.items()) if s >= LEAST_S and (ROOT / module).exists()}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


def _of_class(name: str) -> str:
    """Return the module in which pytest ran the tests of a dotted name, which ends with their class
    if they have one.
    """
    parts = name.split(".")
    return next(
        "/".join(parts[:end]) + ".py"
        for end in range(1, len(parts) + 1)
        if parts[end - 1].startswith("test_")
    )


if __name__ == "__main__":
    sys.exit(main())
