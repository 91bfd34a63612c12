"""Tests that need more than Python are marked as whole modules, because `make check` ignores their folder."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "integration"
MARKED = re.compile(r"^pytestmark = .*pytest\.mark\.(spark|postgres|flink|slow)\b", re.MULTILINE)


def test_every_module_of_integration_tests_is_marked_as_a_whole() -> None:
    modules = sorted(FOLDER.rglob("test_*.py"))

    unmarked = [path.name for path in modules if not MARKED.search(path.read_text(encoding="utf-8"))]

    assert len(modules) > 50
    assert unmarked == []
