from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_the_engine_contract_holds_with_the_catalog_on_postgresql(postgres_database: str) -> None:
    # In a process of its own: a Spark driver has one catalog, and a process has one driver.
    tests = ["tests/contract/test_engine_spark.py", "-k", "TestSparkEngine", "-q", f"--catalog-url={postgres_database}"]

    run = subprocess.run(
        [sys.executable, "-m", "pytest", *tests], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout[-4000:]
    assert " passed" in run.stdout.splitlines()[-1]
