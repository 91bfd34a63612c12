"""Copies of jars, named by content hash. They preserve the classes with which a job was created."""

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
"""Copies the remote jar at a URI to a file. Returns False if Spark loads the jar itself."""


class JarCopies:
    """Stores `<hash>.jar` in *folder*, together with the ids of the jobs that need it.

    Without a folder, nothing is copied. A jar that this process has loaded is removed only by the next
    process, because sessions may need it again. Thread-safe. Raises OSError.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._loaded: set[str] = set()

    def add(self, path: str, fetch: Fetch | None = None) -> str:
        """Copy a jar, with *fetch* if it is remote, and return the path of the copy.

        If nothing was copied, return *path* itself.
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
            # Hash the copy, because the original may change at any time.
            with part.open("rb") as content:
                name = hashlib.file_digest(content, "sha256").hexdigest()
            copy = self._folder / f"{name}.jar"
            with self._lock:
                part.replace(copy)
                self._loaded.add(copy.name)
        finally:
            part.unlink(missing_ok=True)
        return str(copy)

    def keep(self, jars: Iterable[str], job_id: str) -> None:
        """Retain the copies among *jars* until `forget` is called for the job."""
        with self._lock:
            for jar in filter(self._is_copy, map(Path, jars)):
                marks = jar.with_suffix(_JOBS)
                marks.mkdir(parents=True, exist_ok=True)
                (marks / job_id).touch()

    def forget(self, jars: Iterable[str], job_id: str) -> None:
        """Release the jars of a job and remove those that are no longer needed."""
        with self._lock:
            for jar in filter(self._is_copy, map(Path, jars)):
                (jar.with_suffix(_JOBS) / job_id).unlink(missing_ok=True)
                self._remove_unless_needed(jar)

    def begin(self, needed: Mapping[str, Iterable[str]]) -> None:
        """Remove unneeded copies of earlier processes. Must be called before the first session.

        *needed* contains the jars of all unfinished jobs, by job id. It is authoritative, because the folder
        may have been copied from the home of another gateway.
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
