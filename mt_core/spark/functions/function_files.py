"""Copies of the files of functions, named by content hash. They preserve the code of each function."""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from mt_core.base.secrets import without_passwords
from mt_core.errors import DefinitionInvalid
from mt_core.model.function import PIN, CreatedFunction, FunctionFile
from mt_core.spark.files.gateway_files import local_path

_HASH = re.compile("[0-9a-f]{64}")
_SUFFIXES = {"JAR": ".jar", "FILE": ".py", "ARCHIVE": ".zip"}
Fetch = Callable[[str, Path, str], None]
"""Copies the remote file at a URI to a path. The last argument describes what needs the file.

Raises MtError.
"""


class FunctionFiles:
    """The copies in *folder*. Thread-safe. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._used: set[str] = set()

    def copied(self, function: CreatedFunction, fetch: Fetch) -> CreatedFunction:
        """Copy the files of *function* and return the function with their hashes.

        Raises DefinitionInvalid for a file that does not exist or whose content has another hash than the
        function requires.
        """
        return replace(
            function, files=tuple(self._copied(function.name, each, fetch) for each in function.files)
        )

    def path(self, file: FunctionFile) -> str:
        """Return the path of the copy of a file."""
        return str(self._folder / copy_name(file))

    def remove_unused(self, functions: Iterable[CreatedFunction]) -> None:
        """Remove the copies that neither *functions* nor any function used by this process needs."""
        with self._lock:
            needed = {copy_name(file) for function in functions for file in function.files} | self._used
            for copy in self._folder.iterdir() if self._folder.is_dir() else ():
                if copy.name not in needed:
                    copy.unlink(missing_ok=True)

    def _copied(self, name: str, file: FunctionFile, fetch: Fetch) -> FunctionFile:
        part = f"{uuid4().hex}.part"
        with self._lock:
            # A statement can contain any text as the hash. Only a valid hash may become part of a path.
            if _HASH.fullmatch(file.content):
                self._used.add(copy_name(file))
                if (self._folder / copy_name(file)).is_file():
                    return file
            self._folder.mkdir(parents=True, exist_ok=True)
            self._used.add(part)
        try:
            uri = _copy(name, file.uri, self._folder / part, fetch)
            # Hash the copy, because the original may change at any time.
            stored = replace(file, uri=uri, content=_hash_of(self._folder / part))
            if file.content not in {"", stored.content}:
                raise DefinitionInvalid(
                    f"Function {name}: file {without_passwords(uri)} does not have the content "
                    f"{file.content} that the function needs; restore that file, or CREATE OR REPLACE the "
                    f"function without {PIN}…."
                )
            with self._lock:
                self._used.add(copy_name(stored))
                (self._folder / part).replace(self._folder / copy_name(stored))
            return stored
        finally:
            with self._lock:
                self._used.discard(part)
                (self._folder / part).unlink(missing_ok=True)


def copy_name(file: FunctionFile) -> str:
    """Return the name of the copy of a file, which is the same on executors."""
    return f"{file.content}{_SUFFIXES[file.kind]}"


def _hash_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _copy(name: str, uri: str, target: Path, fetch: Fetch) -> str:
    """Copy a local or remote file and return its absolute path or URI."""
    path = local_path(uri)
    if path is None:
        fetch(uri, target, f"Function {name}")
        return uri
    source = path.absolute()
    if not source.is_file():
        raise DefinitionInvalid(
            f"Function {name}: there is no file {uri} on the gateway's machine; "
            "give the path of a file there, or a URI that Spark can read."
        )
    shutil.copyfile(source, target)
    return str(source)
