"""The tables and queries of TPC-H and TPC-DS: DuckDB gives them when tests run."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mt_core.incremental.shape import read_shape
from tests.integration.duckdb_python import duckdb_python
from tests.support.tpc_plans import RecordedQuery, recorded_queries

SCALE = 0.01
"""60,000 rows of lineitem, 29,000 of store_sales."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TpcSuite:
    """What DuckDB gives for one benchmark: the file of each table, and the text of each query by its name,
    such as q6.
    """

    tables: Mapping[str, Path]
    queries: Mapping[str, str]


def tpc_suite(suite: str, folder: Path) -> TpcSuite:
    """Return `tpch` or `tpcds`, written to *folder* if it is not there yet."""
    if not (folder / suite).exists():
        command = [duckdb_python(), Path(__file__).with_name("tpc_dump.py"), folder, str(SCALE)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr
    queries = json.loads((folder / suite / "queries.json").read_text())
    return TpcSuite(
        tables={file.stem: file for file in sorted((folder / suite).glob("*.parquet"))},
        queries={f"q{number}": text for number, text in queries.items()},
    )


def without_choice(suite: str, queries: Mapping[str, str]) -> dict[str, str]:
    """Return *queries* without a LIMIT at the end that has a choice among different rows."""
    recorded = recorded_queries(suite)
    return {
        name: text if _is_total(recorded[name]) else re.sub(r"\s+LIMIT \d+$", "", text, flags=re.IGNORECASE)
        for name, text in queries.items()
    }


def _is_total(query: RecordedQuery) -> bool:
    first = read_shape(query.plan, query.subqueries).first
    return first is not None and first.total
