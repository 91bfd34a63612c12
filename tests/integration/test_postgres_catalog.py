from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import DEPTH

ROOT = Path(__file__).parents[2]
# What the catalog does: it makes and drops tables, and lets one of two commits win.
# Rows and versions are in files.
BY_CATALOG = (
    "creating or dropp or appended_once or swap or stale or publish or foreign or heard "
    "or missing or not_there"
)

# Not all creations: each session of Spark has connections of its own to the catalog.
CHOSEN = " or ".join(
    (
        "TestSparkEngine" if DEPTH > 1 else f"TestSparkEngine and ({BY_CATALOG})",
        "TestSparkStreams and (added_once or later_attempt or reads_what_came_after)",
        "no_connection",
        "created_streams and discarded",
        "tables_of_queries and old_table_until",
        *(["created_streams and (grows or not_before)"] if DEPTH > 1 else []),
        *(["tables_of_queries and (replacement_that_fails or renamed or killed)"] if DEPTH > 1 else []),
    )
)
MODULES = (
    "tests/contract/test_engine_spark.py",
    "tests/contract/test_stream_engine.py",
    "tests/integration/test_catalog_connections.py",
    "tests/integration/test_tables_of_queries.py",
    "tests/integration/test_created_streams.py",
)

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]


def test_engine_streams_and_creations_hold_with_the_catalog_on_postgresql_and_leave_no_connection(
    postgres_database: str,
) -> None:
    """Its tests have a process of their own: a process has one Spark, and that one catalog."""
    command = [sys.executable, "-m", "pytest", *MODULES, "-k", CHOSEN, "-q"]

    run = subprocess.run(
        [*command, f"--catalog-url={postgres_database}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout[-4000:]
    assert " passed" in run.stdout.splitlines()[-1]
