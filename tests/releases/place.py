"""The homes that releases have written, and the one folder in which each of them is written and opened.

The metadata of tables, checkpoints and plans contain absolute paths, so a home works only in the folder
in which it was written.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).parent
PLACE = Path("/tmp/freshtable-releases")
REGISTRIES = ("sqlite", "postgres")
# In a home whose registry was in PostgreSQL: the statements that restore it.
DUMP = "registry.sql"
LOCKED_S = 600


def versions() -> list[str]:
    """Return the releases whose homes are stored."""
    return sorted(folder.name for folder in HERE.iterdir() if (folder / "sqlite.tar.xz").exists())


def archive(version: str, registry: str) -> Path:
    return HERE / version / f"{registry}.tar.xz"


def airflow_wheels() -> list[Path]:
    """Return the stored packages of Airflow."""
    return sorted(HERE.glob("*/freshtable_airflow-*.whl"))


@contextmanager
def empty_home(version: str, registry: str) -> Iterator[Path]:
    """Yield the folder of a home, which no other process uses meanwhile, without its earlier content;
    it is removed at the end.
    """
    home = PLACE / version / registry
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(home.with_suffix(".lock"), timeout=LOCKED_S):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        try:
            yield home
        finally:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def home_of(version: str, registry: str) -> Iterator[Path]:
    """Yield the home that a release has written, in its folder; changes of it are lost at the end."""
    with empty_home(version, registry) as home, tarfile.open(archive(version, registry)) as packed:
        packed.extractall(home, filter="data")
        yield home
