from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import DEPTH

ROOT = Path(__file__).parents[2]
# What the catalog does: it makes and drops tables, and lets one of two commits win. Rows and versions are in files.
BY_CATALOG = (
    "creating or dropp or appended_once or swap or stale or publish or foreign or heard or missing or not_there"
)

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(400)]


@pytest.mark.slow
def test_the_engine_contract_holds_with_the_catalog_on_postgresql(postgres_database: str) -> None:
    chosen = "TestSparkEngine" if DEPTH > 1 else f"TestSparkEngine and ({BY_CATALOG})"
    run_tests(postgres_database, "tests/contract/test_engine_spark.py", chosen)


@pytest.mark.slow
def test_streams_write_each_row_once_and_leave_no_connection_with_the_catalog_on_postgresql(
    postgres_database: str,
) -> None:
    chosen = "added_once or later_attempt or reads_what_came_after"
    modules = "tests/contract/test_stream_engine.py tests/integration/test_catalog_connections.py"
    run_tests(postgres_database, modules, f"TestSparkStreams and ({chosen}) or no_connection")


@pytest.mark.slow
def test_tables_of_queries_and_of_streams_are_whole_or_not_there_on_postgresql(postgres_database: str) -> None:
    modules = "tests/integration/test_tables_of_queries.py tests/integration/test_created_streams.py"
    # Not all: each session of Spark has connections of its own to the catalog.
    streams = "created_streams and (grows or discarded or not_before)"
    chosen = f"({streams}) or replacement_that_fails or old_table_until or renamed{' or killed' if DEPTH > 1 else ''}"
    run_tests(postgres_database, modules, chosen)


def run_tests(catalog: str, modules: str, chosen: str) -> None:
    """Run tests whose Spark has its catalog there; in a process of its own: a process has one driver, and that one catalog."""
    command = [sys.executable, "-m", "pytest", *modules.split(), "-k", chosen, "-q", f"--catalog-url={catalog}"]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout[-4000:]
    assert " passed" in run.stdout.splitlines()[-1]
