"""Protection of the gateway's memory from other processes of its user."""

from __future__ import annotations

import ctypes
import logging
import os
import sys

log = logging.getLogger(__name__)
_PR_SET_DUMPABLE = 4


def close_process_memory() -> None:
    """Deny other processes of the same user access to the environment and memory of this process.

    User functions run in other processes of the same user. A side effect is that the kernel writes no core
    dump and only root may attach a debugger. Child processes are not affected. Does nothing on systems other
    than Linux.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        log.warning(
            "the environment of this process cannot be hidden from other processes of its user: %s",
            os.strerror(ctypes.get_errno()),
            extra={"action": "process_open"},
        )
