"""A Python with DuckDB and its extensions, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from mt_core.base.cache_folder import cache_dir

VERSION = "1.5.5"
PACKAGES = (
    f"duckdb=={VERSION}",
    f"duckdb-extensions=={VERSION}",
    *(f"duckdb-extension-{name}=={VERSION}" for name in ("avro", "iceberg", "tpch", "tpcds")),
)


def duckdb_python() -> Path:
    """Return the Python of an environment in the user's cache, which is created once for each list of
    packages.
    """
    folder = cache_dir(os.environ) / "duckdb"
    stamp, python = folder / ".ready", folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = f"{sys.version}\n{PACKAGES}"
    with FileLock(f"{folder}.lock"):
        if not stamp.exists() or stamp.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, timeout=600)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, timeout=600)
            stamp.write_text(wanted)
    return python
