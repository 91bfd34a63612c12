"""Files of functions: copies by the hash of their content, so that a function keeps the code
that it was created with.
"""

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
"""Copies the remote file of a URI, which what the text says needs, into a local one; raises MtError."""


class FunctionFiles:
    """Keeps copies in *folder*. Any thread; raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._used: set[str] = set()

    def kept(self, function: CreatedFunction, fetch: Fetch) -> CreatedFunction:
        """Return *function* with a copy of each of its files; raises DefinitionInvalid for a file
        that is not there.
        """
        return replace(
            function, files=tuple(self._kept(function.name, each, fetch) for each in function.files)
        )

    def path(self, file: FunctionFile) -> str:
        """Return where the copy of a file is."""
        return str(self._folder / kept_name(file))

    def remove_unused(self, functions: Iterable[CreatedFunction]) -> None:
        """Remove the copies that neither *functions* nor a function of this process needs."""
        with self._lock:
            needed = {kept_name(file) for function in functions for file in function.files} | self._used
            for copy in self._folder.iterdir() if self._folder.is_dir() else ():
                if copy.name not in needed:
                    copy.unlink(missing_ok=True)

    def _kept(self, name: str, file: FunctionFile, fetch: Fetch) -> FunctionFile:
        part = f"{uuid4().hex}.part"
        with self._lock:
            # A statement can name any text as the content: what is no hash is the name of no copy.
            if _HASH.fullmatch(file.content):
                self._used.add(kept_name(file))
                if (self._folder / kept_name(file)).is_file():
                    return file
            self._folder.mkdir(parents=True, exist_ok=True)
            self._used.add(part)
        try:
            uri = _copy(name, file.uri, self._folder / part, fetch)
            # The hash of the copy: the file may change meanwhile.
            kept = replace(file, uri=uri, content=_hash_of(self._folder / part))
            if file.content not in {"", kept.content}:
                raise DefinitionInvalid(
                    f"Function {name}: file {without_passwords(uri)} has "
                    f"another content than {file.content}, which the function "
                    f"needs; put that file there, or CREATE OR REPLACE the function without {PIN}…."
                )
            with self._lock:
                self._used.add(kept_name(kept))
                (self._folder / part).replace(self._folder / kept_name(kept))
            return kept
        finally:
            with self._lock:
                self._used.discard(part)
                (self._folder / part).unlink(missing_ok=True)


def kept_name(file: FunctionFile) -> str:
    """Return what the copy of a file is called, on executors too."""
    return f"{file.content}{_SUFFIXES[file.kind]}"


def _hash_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _copy(name: str, uri: str, target: Path, fetch: Fetch) -> str:
    """Copy a file of the gateway's machine, or a remote one, and return where it is from any folder."""
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
