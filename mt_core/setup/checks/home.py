"""Checks the home folder: access, free space, and the gateway that owns it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from mt_core.app.home import Home
from mt_core.model.finding import Finding
from mt_core.setup.machine import Machine

SUBJECT = "home"
LEAST_FREE = 1 << 30
OTHER = "choose another folder with --home"
_OTHERS = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeState:
    """The state of a home folder.

    If the folder does not exist, `writable` and `free` are those of its nearest existing parent.
    """

    folder: Path
    exists: bool
    is_folder: bool = True
    writable: bool
    is_mine: bool = True
    mode: int = 0o700
    free: int
    holder: int | None = None
    holder_runs: bool = False
    url: str = ""


def check(machine: Machine) -> list[Finding]:
    """Return the findings about the home folder. Creates nothing."""
    return list(judge(state_of(machine.config.home), machine.start))


def state_of(folder: Path) -> HomeState:
    """Return the state of *folder*."""
    there = existing(folder)
    usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    free = shutil.disk_usage(there).free
    if there != folder:
        return HomeState(folder=folder, exists=False, is_folder=there.is_dir(), writable=usable, free=free)
    facts, holder = folder.stat(), Home(folder).read_holder()
    pid = holder.get("pid") if isinstance(holder.get("pid"), int) else None
    return HomeState(
        folder=folder,
        exists=True,
        is_folder=folder.is_dir(),
        writable=usable,
        is_mine=facts.st_uid == os.getuid(),
        mode=facts.st_mode & 0o777,
        free=free,
        holder=pid,
        holder_runs=pid is not None and psutil.pid_exists(pid),
        url=str(holder.get("url") or ""),
    )


def judge(state: HomeState, start: str) -> Iterator[Finding]:
    """Yield the findings about a home folder. *start* is the command that starts a gateway."""
    folder = state.folder
    if not state.is_folder:
        yield Finding.problem(SUBJECT, f"{folder} is not a folder, or its parent is not one", OTHER)
        return
    yield _access(state) if state.exists else _place(state)
    if state.free < LEAST_FREE:
        text = f"only {state.free >> 20} MB are free for {folder}"
        yield Finding.problem(SUBJECT, text, f"delete files on its disk, or {OTHER}")
    if state.url and state.holder_runs:
        yield Finding.ok(SUBJECT, f"owned by the gateway at {state.url} (process {state.holder})")
    elif state.url:
        text = (
            f"the gateway at {state.url} (process {state.holder}) did not shut down cleanly; "
            "the next one finishes its work"
        )
        yield Finding.note(SUBJECT, text, start)


def _access(state: HomeState) -> Finding:
    """Return the finding about the owner and the permissions of an existing home folder."""
    folder, owner = state.folder, f"sudo chown -R $(id -un) {state.folder}"
    if not state.is_mine:
        return Finding.problem(SUBJECT, f"{folder} belongs to another user", owner)
    if not state.writable:
        return Finding.problem(SUBJECT, f"{folder} cannot be written by this user", f"chmod u+rwx {folder}")
    if state.mode & _OTHERS:
        text, way_out = f"{folder} is open to other users (mode {state.mode:04o})", f"chmod 700 {folder}"
        if state.url and state.holder_runs:
            return Finding.problem(SUBJECT, text, way_out)
        return Finding.note(SUBJECT, f"{text}; the gateway closes it when it starts", way_out)
    return Finding.ok(SUBJECT, f"{folder} can be written, only by this user")


def _place(state: HomeState) -> Finding:
    """Return a finding on whether a missing home folder can be created."""
    if state.writable:
        return Finding.note(SUBJECT, f"{state.folder} does not exist; the gateway creates it")
    return Finding.problem(
        SUBJECT, f"{state.folder} does not exist and cannot be created by this user", OTHER
    )


def existing(folder: Path) -> Path:
    """Return *folder* or, if it does not exist, its nearest parent that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder
