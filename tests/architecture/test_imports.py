"""Modules import only from lower layers, and the command line and the client load no heavy modules.

The loaded modules are determined in separate processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    *(
        "pyspark",
        "py4j",
        "pyarrow",
        "fastapi",
        "uvicorn",
        "sqlalchemy",
        "alembic",
        "sqlglot",
        "orjson",
        "psycopg",
    ),
    "prompt_toolkit",
)
BLOCK = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

sys.meta_path.insert(0, Blocker())
"""
COMMANDS = ("sql", "gateway", "demo", "doctor", "init", "status")
HELPS = [["--help"], *([command, "--help"] for command in COMMANDS)]
LIGHT = [
    "mt_core.client.http",
    "mt_core.client.dbapi",
    "mt_core.terminal.script",
    "mt_core.terminal.output.columnar_file",
    "mt_core.terminal.run",
    "mt_core.terminal.output.table",
    "mt_core.setup.initial_file",
    "mt_core.setup.status_run",
    "mt_core.workflow.loader",
    "mt_core.tables.manager",
    "mt_core.sql.parser",
    "scheduler_plugins.memory.scheduler",
]


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_layers_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--cache-dir", ".import_linter_cache"]
    environment = os.environ | {"PYTHONPATH": "dags"}

    linted = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert linted.returncode == 0, linted.stdout


@pytest.fixture(scope="module")
def helps() -> dict[str, dict[str, Any]]:
    """The output of each --help, with its exit code and the heavy modules loaded by then.

    One process runs all of them.
    """
    code = f"""
import contextlib, io, json, sys
from mt_core.cli import app
found = {{}}
for arguments in {HELPS!r}:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            app(arguments)
        except SystemExit as end:
            exit_code = end.code
    loaded = [name for name in {HEAVY} if name in sys.modules]
    found[" ".join(arguments)] = {{"code": exit_code, "printed": printed.getvalue(), "loaded": loaded}}
print(json.dumps(found))
"""
    shown = run_python(code)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


@pytest.mark.parametrize("arguments", HELPS)
def test_help_loads_nothing_heavy(arguments: list[str], helps: dict[str, dict[str, Any]]) -> None:
    shown = helps[" ".join(arguments)]

    assert shown["code"] == 0
    assert "Usage" in shown["printed"]
    assert shown["loaded"] == []


@pytest.fixture(scope="module")
def imports() -> dict[str, dict[str, Any]]:
    """The result of importing each light module without heavy packages installed, in one process."""
    code = f"""{BLOCK}
import importlib, json, traceback
found = {{}}
for module in {LIGHT!r}:
    before = set(sys.modules)
    try:
        importlib.import_module(module)
        error = ""
    except Exception:
        error = traceback.format_exc()
    loaded = [name for name in {HEAVY} if name in set(sys.modules) - before]
    found[module] = {{"error": error, "loaded": loaded}}
print(json.dumps(found))
"""
    imported = run_python(code)
    assert imported.returncode == 0, imported.stderr
    return json.loads(imported.stdout)


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_loads_nothing_heavy_and_works_without_it(
    module: str, imports: dict[str, dict[str, Any]]
) -> None:
    assert imports[module] == {"error": "", "loaded": []}


def test_a_statement_fails_in_a_light_install_only_because_no_gateway_is_there() -> None:
    code = f"""{BLOCK}
from mt_core.cli import app
app(["sql", "--gateway", "http://127.0.0.1:9", "-e", "SELECT 1"])
"""

    shown = run_python(code)

    assert shown.returncode == 3
    assert "127.0.0.1:9" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_the_doctor_names_the_extra_that_it_needs() -> None:
    code = f"""{BLOCK}
from mt_core.cli import app
app(["doctor"])
"""

    shown = run_python(code)

    assert shown.returncode == 1
    assert shown.stderr.startswith("Error: freshtable doctor needs the package")
    assert "install the extra 'gateway'" in shown.stderr


def test_a_columnar_file_names_the_extra_that_it_needs_before_any_statement_runs() -> None:
    code = f"""{BLOCK}
from mt_core.cli import app
app(["sql", "--gateway", "http://127.0.0.1:9", "--format", "parquet", "-o", "x.parquet", "-e", "SELECT 1"])
"""

    shown = run_python(code)

    assert shown.returncode == 2
    assert shown.stderr.startswith(
        "Error: --format parquet needs the package pyarrow; install the extra 'client'"
    )


def test_a_gateway_without_the_extra_metrics_has_none() -> None:
    code = """
import sys
sys.modules["prometheus_client"] = None
import mt_core.app.configured_services
from mt_core.app.metrics_wiring import wire_metrics
print(wire_metrics(None))
"""

    shown = run_python(code)

    assert (shown.stdout, shown.returncode) == ("None\n", 0), shown.stderr


def test_only_the_chosen_scheduler_is_imported() -> None:
    code = (
        "import sys, mt_core.workflow.loader\n"
        "print(any(n.startswith('scheduler_plugins.') for n in sys.modules))"
    )

    assert run_python(code).stdout.strip() == "False"
