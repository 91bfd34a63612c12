"""Which process of which machine: a process id alone does not say, because the system uses it again."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_PROC = Path("/proc")


def machine() -> str:
    """Return what identifies this machine since its last start, and this container on it."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return f"{os.uname().nodename}/{psutil.boot_time():.0f}"


def start_of(pid: int) -> str:
    """Return when the process *pid* of this machine started, in a unit of its own;
    empty if there is no such process.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return _ticks(pid) or f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


def is_running(pid: int, started: str) -> bool:
    """Return whether the process *pid* that started then may still run.

    The system can hide a process of the same user from this one (`hidepid`):
    one that takes signals then counts as that process.
    """
    try:
        psutil.Process(pid).status()
    except psutil.Error:
        return _takes_signals(pid)
    return start_of(pid) == started


def _takes_signals(pid: int) -> bool:
    # Not psutil's `pid_exists`, which asks for what may be hidden.
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def _ticks(pid: int) -> str:
    """Return the start in ticks since the machine's, which a change of the machine's clock does not move."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name of the program stands in parentheses and may hold anything; the start is the 22nd field.
    return stat.rpartition(")")[2].split()[19]
