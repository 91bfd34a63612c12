"""Copies of jars by the hash of their content, so that a job keeps the classes that it was created with."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from uuid import uuid4

from mt_core.spark.files.gateway_files import local_path

_JOBS = ".jobs"
Fetch = Callable[[str, Path], bool]
"""Copies the remote jar of a URI into a file, and returns whether it did."""


class JarCopies:
    """Keeps `<hash>.jar` in *folder*, and beside it the ids of the jobs that need it;
    without a folder it copies nothing.

    A jar that this process has loaded stays until the next one begins: its sessions may need it again.
    Any thread; raises OSError.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._loaded: set[str] = set()

    def add(self, path: str, fetch: Fetch | None = None) -> str:
        """Return the path of a copy of a jar, which *fetch* copies here if it is not local;
        if it does not, *path* itself.
        """
        local = local_path(path)
        if self._folder is None or (fetch is None and local is None):
            return path
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"{uuid4().hex}.part"
        try:
            if local is not None:
                shutil.copyfile(local, part)
            elif fetch is not None and not fetch(path, part):
                return path
            # The hash of the copy: the file may change meanwhile.
            with part.open("rb") as copied:
                name = hashlib.file_digest(copied, "sha256").hexdigest()
            copy = self._folder / f"{name}.jar"
            with self._lock:
                part.replace(copy)
                self._loaded.add(copy.name)
        finally:
            part.unlink(missing_ok=True)
        return str(copy)

    def keep(self, jars: Iterable[str], job_id: str) -> None:
        """Keep the copies among *jars* until the job is forgotten."""
        with self._lock:
            for jar in filter(self._is_copy, map(Path, jars)):
                marks = jar.with_suffix(_JOBS)
                marks.mkdir(parents=True, exist_ok=True)
                (marks / job_id).touch()

    def forget(self, jars: Iterable[str], job_id: str) -> None:
        """Let a job need its jars no more; remove those that nobody needs."""
        with self._lock:
            for jar in filter(self._is_copy, map(Path, jars)):
                (jar.with_suffix(_JOBS) / job_id).unlink(missing_ok=True)
                self._remove_unless_needed(jar)

    def begin(self, needed: Mapping[str, Iterable[str]]) -> None:
        """Remove what earlier processes left and no job needs; to be called before any session begins.

        *needed* are the jars of the jobs that have not ended, by id:
        what says so here may be of another home.
        """
        for job_id, jars in needed.items():
            self.keep(jars, job_id)
        with self._lock:
            for jar in self._folder.glob("*.jar") if self._folder is not None else ():
                self._remove_unless_needed(jar)
            for part in self._folder.glob("*.part") if self._folder is not None else ():
                part.unlink(missing_ok=True)

    def _remove_unless_needed(self, jar: Path) -> None:
        marks = jar.with_suffix(_JOBS)
        if jar.name in self._loaded or (marks.is_dir() and any(marks.iterdir())):
            return
        if marks.is_dir():
            marks.rmdir()
        jar.unlink(missing_ok=True)

    def _is_copy(self, jar: Path) -> bool:
        return self._folder is not None and jar.parent == self._folder
