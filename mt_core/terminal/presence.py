"""Who is present at an embedded gateway: a lock that its clients share, and that it takes
for itself after the last one.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from mt_core.errors import ConfigError

_POLL_S = 0.05


class Presence:
    """The lock of a home folder, as this process holds it; the system releases that of a killed process."""

    def __init__(self, home: Path) -> None:
        self._home, self._file = home, home / "clients.lock"
        self._found = _identity(home)
        self._descriptor: int | None = None

    @property
    def has_home(self) -> bool:
        """Whether the folder is still the one that it was;
        nobody finds a gateway whose folder was removed.
        """
        return self._found is not None and _identity(self._home) == self._found

    def share(self, wait_s: float, interrupt: threading.Event) -> bool:
        """Be present as a client, once no gateway has the lock for itself; return False after *wait_s*,
        or at *interrupt*.
        """
        deadline = time.monotonic() + wait_s
        while not self._take(fcntl.LOCK_SH):
            if interrupt.wait(_POLL_S) or time.monotonic() > deadline:
                return False
        return True

    def exclude(self) -> bool:
        """Take the lock for this process alone, if no client is present; return whether it has it."""
        return self._take(fcntl.LOCK_EX)

    def release(self) -> None:
        """Be present no more; harmless without the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _take(self, kind: int) -> bool:
        if self._descriptor is not None:
            return True
        # Programs that this one starts do not inherit it.
        descriptor = None
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError as cause:
            if descriptor is not None:
                os.close(descriptor)
            if isinstance(cause, BlockingIOError):
                return False
            raise ConfigError(
                f"{self._file} cannot be locked: {cause.strerror}; choose a home on a local disk."
            ) from cause
        self._descriptor = descriptor
        return True


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
