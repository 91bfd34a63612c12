"""List functions of more than 50 lines, longest first: `python -m tests.architecture.long_functions`.

No test rejects a long function, because one idea may need many lines. The list helps reviewers to find
functions with two ideas.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mt_core", "scheduler_plugins", "dags/freshtable_airflow", "tests/support")
MOST_LINES = 50


def long_functions(modules: Iterable[Path]) -> list[tuple[int, str]]:
    """Return the length and location of each function of more than 50 lines, longest first."""
    return sorted(
        (each for module in modules for each in _long(module)), key=lambda each: (-each[0], each[1])
    )


def _long(module: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_LINES:
                place = module.relative_to(ROOT) if module.is_relative_to(ROOT) else module
                yield lines, f"{place.as_posix()}:{node.lineno} {node.name}"


if __name__ == "__main__":
    for lines, place in long_functions(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        sys.stdout.write(f"{lines:4} {place}\n")
