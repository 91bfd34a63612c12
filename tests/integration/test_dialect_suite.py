from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.client import dbapi
from tests.depth import DEPTH
from tests.support.gateway.own_process import FAST, started_gateway

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SUITE_TIMEOUT_S = 1700
CASES = 0 if DEPTH > 1 else 1
"""How many cases of a test with parameters run; 0: all of them."""
# How many tests ran when the suite was last looked through: none may slip out unseen.
FEWEST_PASSED = 600 if CASES == 0 else 225


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The URL of a real gateway with the schemas that the suite works in."""
    with started_gateway(tmp_path, *FAST) as address:
        with dbapi.connect(address, catalog="lake") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS lake.default")
            cursor.execute("CREATE SCHEMA IF NOT EXISTS lake.test_schema")
        yield address


@pytest.mark.timeout(SUITE_TIMEOUT_S + 100)
def test_the_dialect_passes_the_suite_of_sqlalchemy(url: str) -> None:
    target = f"freshtable://{url.removeprefix('http://')}/lake/default"
    command = [sys.executable, "-m", "tests.integration.dialect_suite", target, str(CASES), "-rfE"]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S, check=False)

    passed = re.search(r"(\d+) passed", run.stdout)
    assert run.returncode == 0, run.stdout[-10_000:] + run.stderr[-2_000:]
    assert passed is not None
    assert int(passed[1]) >= FEWEST_PASSED
