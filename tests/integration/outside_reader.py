"""A reader that knows nothing of Spark and of us: PyIceberg, in a process of its own,
reading tables again and again.

Run as a module with the home folder, a file to write to and names of tables:
one JSON line for each read, until it is told to stop by SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError


def lake_outside(home: Path) -> SqlCatalog:
    """Return the catalog `lake` of the gateway with the folder *home*."""
    return SqlCatalog(
        "lake",
        uri=f"sqlite:///{home}/catalog.db",
        warehouse=str(home / "warehouse"),
        init_catalog_tables="false",
    )


def _main(home: Path, out: Path, tables: Sequence[str]) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    catalog = lake_outside(home)
    with out.open("w", encoding="utf-8") as lines:
        while not stop.is_set():
            for name in tables:
                lines.write(json.dumps({"table": name, "seen": _read(catalog, name)}) + "\n")
            lines.flush()


def _read(catalog: SqlCatalog, name: str) -> list[list[object]] | str:
    """Return (region, lowest, highest generation, rows) of each region, or what stood in the way."""
    try:
        rows = catalog.load_table(f"default.{name}").scan(selected_fields=("region", "generation")).to_arrow()
    except NoSuchTableError as error:
        return f"{type(error).__name__}: {error}"
    grouped = rows.group_by("region").aggregate(
        [("generation", "min"), ("generation", "max"), ("generation", "count")]
    )
    names = ("region", "generation_min", "generation_max", "generation_count")
    return sorted([row[name] for name in names] for row in grouped.to_pylist())


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
