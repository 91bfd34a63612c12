"""The tables and queries of TPC-H and TPC-DS: DuckDB gives them when tests run,
in an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from mt_core.base.cache_folder import cache_dir

PACKAGES = (
    "duckdb==1.5.5",
    "duckdb-extensions==1.5.5",
    "duckdb-extension-tpch==1.5.5",
    "duckdb-extension-tpcds==1.5.5",
    "sqlglot==30.30.0",
)
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
        command = [tpc_python(), Path(__file__).with_name("tpc_dump.py"), folder, str(SCALE)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr
    queries = json.loads((folder / suite / "queries.json").read_text())
    return TpcSuite(
        tables={file.stem: file for file in sorted((folder / suite).glob("*.parquet"))},
        queries={f"q{number}": text for number, text in queries.items()},
    )


def tpc_python() -> Path:
    """Return the Python that has DuckDB, of an environment in the user's cache, which is made once
    for each list of packages.
    """
    folder = cache_dir(os.environ) / "tpc"
    stamp, python = folder / ".ready", folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = f"{sys.version}\n{PACKAGES}"
    with FileLock(f"{folder}.lock"):
        if not stamp.exists() or stamp.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, timeout=600)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, timeout=600)
            stamp.write_text(wanted)
    return python
