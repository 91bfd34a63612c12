"""The lock that tells an embedded gateway whether it has clients.

Clients share the lock. The gateway acquires it exclusively after the last client has released it.
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
    """The client lock of a home folder. The system releases the lock of a killed process."""

    def __init__(self, home: Path) -> None:
        self._home, self._file = home, home / "clients.lock"
        self._initial_identity = _identity(home)
        self._descriptor: int | None = None

    @property
    def has_home(self) -> bool:
        """Whether the folder is still the same one. A gateway whose folder was removed cannot be reached."""
        return self._initial_identity is not None and _identity(self._home) == self._initial_identity

    def share(self, wait_s: float, interrupt: threading.Event) -> bool:
        """Acquire the lock as a client.

        Return False if a gateway holds it exclusively for *wait_s* seconds, or if *interrupt* is set.
        """
        deadline = time.monotonic() + wait_s
        while not self._take(fcntl.LOCK_SH):
            if interrupt.wait(_POLL_S) or time.monotonic() > deadline:
                return False
        return True

    def exclude(self) -> bool:
        """Acquire the lock exclusively and return True, or return False if a client holds it."""
        return self._take(fcntl.LOCK_EX)

    def release(self) -> None:
        """Release the lock, if this process holds it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _take(self, kind: int) -> bool:
        if self._descriptor is not None:
            return True
        descriptor = None
        try:
            # With O_CLOEXEC, child processes do not inherit the lock.
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
        status = folder.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
