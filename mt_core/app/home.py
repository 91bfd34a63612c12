"""The home folder of a gateway: its paths, and the lock that allows only one process at a time."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from mt_core.app import process_identity
from mt_core.client.home import SOCKET_NAME
from mt_core.errors import ConfigError, HomeLocked

log = logging.getLogger(__name__)
JVM_EXIT_TIMEOUT_S = 20.0
_POLL_S = 0.1


class Home:
    """A home folder with the paths of the gateway's files. `take` locks it.

    `socket` is where an embedded gateway listens. `token` is the generated token, readable only by the
    gateway's user. `results` contains the rows of results that do not fit in memory; files from an earlier
    gateway are obsolete. `jars` contains copies of added jars, `functions` copies of function files, and
    `sessions` a folder for each open session. `temporary` contains the JVM's temporary files, which a killed
    JVM leaves behind. `holder` records the process that has locked the folder, and its JVM, which may outlive
    a killed gateway for seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.token, self.results, self.logs = (
            self.folder / "token",
            self.folder / "results",
            self.folder / "logs",
        )
        self.jars, self.functions = self.folder / "jars", self.folder / "functions"
        self.sessions, self.socket = self.folder / "sessions", self.folder / SOCKET_NAME
        self.temporary = self.folder / "spark-tmp"
        self.holder = self.folder / "gateway.json"
        self._lock = FileLock(self.folder / "gateway.lock")

    def take(self) -> None:
        """Lock the folder. Raises HomeLocked naming the process that has locked it, or ConfigError."""
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            self._close_to_others()
            self._lock.acquire(timeout=0)
        except Timeout as cause:
            holder = self.read_holder()
            where = f" at {holder['url']}" if holder.get("url") else ""
            raise HomeLocked(
                f"Home folder {self.folder} is used by another gateway "
                f"(process {holder.get('pid', 'unknown')}{where}); "
                "use that one, stop it, or choose another folder with --home."
            ) from cause
        except OSError as cause:
            raise self._unusable(cause) from cause
        holder = self.read_holder()
        self._wait_for_jvm(holder.get("jvm_pid"), holder.get("jvm_started"))
        self.note(url=None, jvm_pid=None)

    def note(self, *, url: str | None, jvm_pid: int | None) -> None:
        """Record this process in the folder, for other gateways and for clients. A failure is only logged."""
        jvm_started = None if jvm_pid is None else process_identity.start_of(jvm_pid)
        pid = os.getpid()
        started = process_identity.start_of(pid)
        holder = {"pid": pid, "started": started, "url": url, "jvm_pid": jvm_pid, "jvm_started": jvm_started}
        staged = self.holder.with_suffix(f".{threading.get_ident()}.tmp")
        try:
            staged.write_text(json.dumps(holder), encoding="utf-8")
            staged.replace(self.holder)
        except OSError as cause:
            log.warning("%s cannot be written: %s", self.holder, cause, extra={"action": "home_note_failed"})

    def release(self) -> None:
        """Unlock the folder. Idempotent."""
        self._lock.release()

    def stop_holder(self, wait_s: float) -> int:
        """Stop the gateway that has locked the folder and return its process id when it has ended.

        Raises ConfigError if the gateway cannot be stopped or has not ended after *wait_s* seconds.
        """
        if not self.folder.is_dir() or self._is_free(0):
            raise ConfigError(
                f"No gateway runs on home folder {self.folder}; name another folder with --home."
            )
        holder = self.read_holder()
        pid, started = holder.get("pid"), holder.get("started")
        if not isinstance(pid, int) or not started or not process_identity.is_running(pid, started):
            raise ConfigError(
                f"Home folder {self.folder} does not name the process that uses it; stop it yourself."
            )
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError as cause:
            raise ConfigError(f"The gateway (process {pid}) cannot be stopped: {cause.strerror}.") from cause
        if not self._is_free(wait_s):
            raise ConfigError(
                f"The gateway (process {pid}) has not ended after {wait_s:.0f} s; see {self.logs}."
            )
        return pid

    def _is_free(self, wait_s: float) -> bool:
        """Wait for up to *wait_s* until no process has locked the folder; return whether it is unlocked."""
        try:
            with self._lock.acquire(timeout=wait_s):
                return True
        except Timeout:
            return False
        except OSError as cause:
            raise self._unusable(cause) from cause

    def _unusable(self, cause: OSError) -> ConfigError:
        return ConfigError(
            f"Home folder {self.folder} cannot be used: {cause.strerror}; choose another with --home."
        )

    def _close_to_others(self) -> None:
        """Deny other users access to the folder; only the gateway's user may read registry and logs."""
        if self.folder.stat().st_mode & 0o077:
            try:
                self.folder.chmod(0o700)
            except PermissionError:
                log.warning(
                    "Home folder %s belongs to another user and is open to others; "
                    "make the gateway's user its owner, with mode 0700.",
                    self.folder,
                    extra={"action": "home_open"},
                )

    def read_holder(self) -> dict[str, Any]:
        """Return the record of the last holder: `pid`, `url`, `jvm_pid`, `jvm_started`. Empty if absent."""
        try:
            holder = json.loads(self.holder.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return holder if isinstance(holder, dict) else {}

    def _wait_for_jvm(self, pid: int | None, started: str | None) -> None:
        """Wait for the end of a killed gateway's JVM, which may still be writing. Raises HomeLocked."""
        deadline = time.monotonic() + JVM_EXIT_TIMEOUT_S
        while pid is not None and _is_ours(pid, started):
            if time.monotonic() > deadline:
                raise HomeLocked(
                    f"Spark (process {pid}) of an earlier gateway is still running in {self.folder}; "
                    "stop it, then start the gateway again."
                )
            time.sleep(_POLL_S)


def _is_ours(pid: int, started: str | None) -> bool:
    """Return whether *pid* is the recorded JVM, rather than a later process with its id."""
    if process_identity.start_of(pid) != started:
        return False
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and "java" in process.name()
    except psutil.Error:
        return False
