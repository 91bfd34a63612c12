"""Identity of processes across machines and time. A process id is not enough, because it is reused."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_PROC = Path("/proc")


def machine() -> str:
    """Return an identifier of this machine since its last boot and of this container on it.

    Without /proc, it consists of the host name and the boot time.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return f"{os.uname().nodename}/{psutil.boot_time():.0f}"


def start_of(pid: int) -> str:
    """Return the start time of process *pid* as an opaque text, or "" if the process does not exist."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return _ticks(pid) or f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


def is_running(pid: int, started: str) -> bool:
    """Return whether the process *pid* that started at *started* may still be running.

    The system may hide other processes (`hidepid`). A hidden process that accepts signals counts as running.
    """
    try:
        psutil.Process(pid).status()
    except psutil.Error:
        return _accepts_signals(pid)
    return start_of(pid) == started


def _accepts_signals(pid: int) -> bool:
    # psutil's `pid_exists` fails for hidden processes.
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def _ticks(pid: int) -> str:
    """Return the start time in ticks since boot, which clock adjustments do not affect."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The program name is in parentheses and may contain anything. The start time is the 22nd field.
    return stat.rpartition(")")[2].split()[19]
