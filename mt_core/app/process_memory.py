"""Process memory: what other processes of the gateway's user may read of the gateway."""

from __future__ import annotations

import ctypes
import logging
import os
import sys

log = logging.getLogger(__name__)
_PR_SET_DUMPABLE = 4


def close_process_memory() -> None:
    """Close environment and memory of this process to others of its user:
    the code of users' functions runs in such processes.

    The kernel then writes no core dump of this process either, and lets only root attach a debugger.
    A process that this one starts is as any other. Only on Linux; elsewhere nothing happens.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        log.warning(
            "the environment of this process cannot be closed to others of its user: %s",
            os.strerror(ctypes.get_errno()),
            extra={"action": "process_open"},
        )
