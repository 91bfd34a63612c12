"""The home folder of an embedded gateway: who uses it, and where things lie in it."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from mt_core.app import process_identity
from mt_core.errors import ConfigError, HomeLocked

log = logging.getLogger(__name__)
JVM_EXIT_TIMEOUT_S = 20.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePaths:
    """Where things lie in a home folder."""

    folder: Path

    @property
    def lock(self) -> Path:
        return self.folder / "gateway.lock"

    @property
    def holder(self) -> Path:
        return self.folder / "gateway.json"

    @property
    def token(self) -> Path:
        """The token that the gateway generates; nobody but its user may read it."""
        return self.folder / "token"

    @property
    def registry(self) -> Path:
        return self.folder / "registry.db"

    @property
    def catalog(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def results(self) -> Path:
        """Rows of results that no memory was left for; what is there when a gateway starts is nobody's."""
        return self.folder / "results"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


class Home:
    """A home folder held by this process. The JVM's pid is kept with the lock: it may outlive a killed gateway for seconds."""

    def __init__(self, folder: Path) -> None:
        self.paths = HomePaths(folder=folder.resolve())
        self._lock = FileLock(self.paths.lock)

    def take(self) -> None:
        """Lock the folder; raises HomeLocked naming the process that has it, ConfigError if it cannot be made."""
        try:
            self.paths.logs.mkdir(parents=True, exist_ok=True)
            self._close_to_others()
            self._lock.acquire(timeout=0)
        except Timeout as cause:
            raise self._locked() from cause
        except OSError as cause:
            raise ConfigError(
                f"Home folder {self.paths.folder} cannot be used: {cause.strerror}; choose another with --home."
            ) from cause
        holder = self._read()
        self._wait_for_jvm(holder.get("jvm_pid"), holder.get("jvm_started"))
        self.note(url=None, jvm_pid=None)

    def note(self, *, url: str | None, jvm_pid: int | None) -> None:
        """Record who we are, so that others can name us."""
        jvm_started = None if jvm_pid is None else process_identity.started(jvm_pid)
        holder = {"pid": os.getpid(), "url": url, "jvm_pid": jvm_pid, "jvm_started": jvm_started}
        staged = self.paths.holder.with_suffix(f".{threading.get_ident()}.tmp")
        try:
            staged.write_text(json.dumps(holder), encoding="utf-8")
            staged.replace(self.paths.holder)
        except OSError as cause:
            log.warning("%s cannot be written: %s", self.paths.holder, cause, extra={"action": "home_note_failed"})

    def release(self) -> None:
        """Give the folder back; harmless to repeat."""
        self._lock.release()

    def _close_to_others(self) -> None:
        """Let nobody else into the folder: registry and logs have what only the gateway's user may see."""
        if self.paths.folder.stat().st_mode & 0o077:
            try:
                self.paths.folder.chmod(0o700)
            except PermissionError:
                log.warning(
                    "Home folder %s belongs to another user and is open to others; make it one of the gateway's user with "
                    "mode 0700.",
                    self.paths.folder,
                    extra={"action": "home_open"},
                )

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.paths.holder.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _locked(self) -> HomeLocked:
        holder = self._read()
        where = f" at {holder['url']}" if holder.get("url") else ""
        return HomeLocked(
            f"Home folder {self.paths.folder} is used by another gateway (process {holder.get('pid', 'unknown')}{where}); "
            "use that one, stop it, or choose another folder with --home."
        )

    def _wait_for_jvm(self, pid: int | None, started: str | None) -> None:
        """Wait until the JVM of a gateway that was killed is gone: it may still be writing."""
        deadline = time.monotonic() + JVM_EXIT_TIMEOUT_S
        while pid is not None and _is_ours(pid, started):
            if time.monotonic() > deadline:
                raise HomeLocked(
                    f"Spark (process {pid}) of an earlier gateway still runs on {self.paths.folder}; stop it and start again."
                )
            time.sleep(_POLL_S)


def _is_ours(pid: int, started: str | None) -> bool:
    """Whether *pid* is the JVM that was noted, and not a process that got its id since; an earlier release noted no start."""
    if started is not None and process_identity.started(pid) != started:
        return False
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and "java" in process.name()
    except psutil.Error:
        return False
