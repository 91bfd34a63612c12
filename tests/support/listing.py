"""What is below a folder in which somebody else writes and removes meanwhile."""

import os
from pathlib import Path


def paths_below(folder: Path) -> list[Path]:
    """Return all files and folders below *folder*; those that vanish meanwhile may be missing,
    and are no error.
    """
    return [Path(at) / name for at, folders, files in os.walk(folder) for name in [*folders, *files]]
