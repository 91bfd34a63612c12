"""Layers hold, and light things stay light: what the command line and the client load is looked at in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pyspark", "py4j", "pyarrow", "fastapi", "uvicorn", "sqlalchemy", "alembic", "sqlglot", "orjson", "psycopg")
BLOCK = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

sys.meta_path.insert(0, Blocker())
"""
REPORT = f"""
import sys
print(" ".join(sorted(name for name in {HEAVY} if name in sys.modules)))
"""


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_layers_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--cache-dir", ".import_linter_cache"]
    environment = os.environ | {"PYTHONPATH": "dags"}

    linted = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["sql", "--help"], ["gateway", "--help"], ["demo", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import atexit, sys
def report():
    print("loaded:", " ".join(name for name in {HEAVY} if name in sys.modules))
atexit.register(report)
from mt_core.cli import app
app({arguments!r})
"""

    shown = run_python(code)

    assert shown.returncode == 0, shown.stderr
    assert "Usage" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "loaded: "


@pytest.mark.parametrize(
    "module",
    [
        "mt_core.client.http",
        "mt_core.client.dbapi",
        "mt_core.client.terminal.script",
        "mt_core.client.terminal.table",
        "mt_core.workflow.loader",
        "mt_core.tables.manager",
        "mt_core.sql.parser",
        "scheduler_plugins.memory.scheduler",
    ],
)
def test_a_light_module_loads_nothing_heavy_and_works_without_it(module: str) -> None:
    imported = run_python(f"{BLOCK}\nimport {module}\n{REPORT}")

    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.strip() == ""


def test_a_statement_fails_in_a_light_install_only_because_no_gateway_is_there() -> None:
    code = f"""{BLOCK}
from mt_core.cli import app
app(["sql", "--gateway", "http://127.0.0.1:9", "-e", "SELECT 1"])
"""

    shown = run_python(code)

    assert shown.returncode == 1
    assert "127.0.0.1:9" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_only_the_chosen_scheduler_is_imported() -> None:
    code = "import sys, mt_core.workflow.loader\nprint(any(n.startswith('scheduler_plugins.') for n in sys.modules))"

    assert run_python(code).stdout.strip() == "False"
