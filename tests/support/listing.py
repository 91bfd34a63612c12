"""Lists a folder while other processes write and delete in it."""

import os
from pathlib import Path


def paths_below(folder: Path) -> list[Path]:
    """Return all files and folders below *folder*. Some that disappear during the walk may be missing."""
    return [Path(at) / name for at, folders, files in os.walk(folder) for name in [*folders, *files]]
