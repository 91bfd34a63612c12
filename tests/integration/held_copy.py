"""A folder whose copy does not come to its end: who copies it can be killed in the middle of that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class HeldCopy:
    """A pipe in *folder*, into which nobody writes: a copy of the folder waits for its end."""

    def __init__(self, folder: Path) -> None:
        self._pipe = folder / "held"
        self._end: int | None = None
        os.mkfifo(self._pipe)

    def has_begun(self) -> bool:
        """Return whether somebody reads the pipe."""
        if self._end is None:
            # There is no reader yet, or no file with this name after the release.
            with suppress(OSError):
                self._end = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        return self._end is not None

    def release(self) -> None:
        """Let the next copy come to its end, and not the one that waits."""
        self._pipe.unlink(missing_ok=True)

    def close(self) -> None:
        """Let also a copy that waits come to its end."""
        self.has_begun()
        self.release()
        if self._end is not None:
            os.close(self._end)


@contextmanager
def held_copy(folder: Path) -> Iterator[HeldCopy]:
    held = HeldCopy(folder)
    try:
        yield held
    finally:
        held.close()
