"""Files of functions: copies by the hash of their content, so that a function keeps the code that it was created with."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from mt_core.errors import DefinitionInvalid
from mt_core.model.function import CreatedFunction, FunctionFile

_SUFFIXES = {"JAR": ".jar"}


class FunctionFiles:
    """Keeps copies in *folder*. Any thread; raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._used: set[str] = set()

    def kept(self, function: CreatedFunction) -> CreatedFunction:
        """Return *function* with a copy of each of its files; raises DefinitionInvalid for a file that is not there."""
        return replace(function, files=tuple(self._kept(function.name, each) for each in function.files))

    def path(self, file: FunctionFile) -> str:
        """Return where the copy of a file is."""
        return str(self._folder / _name(file))

    def remove_unused(self, functions: Iterable[CreatedFunction]) -> None:
        """Remove the copies that neither *functions* nor a function of this process needs."""
        with self._lock:
            needed = {_name(file) for function in functions for file in function.files} | self._used
            for copy in self._folder.iterdir() if self._folder.is_dir() else ():
                if copy.name not in needed:
                    copy.unlink(missing_ok=True)

    def _kept(self, name: str, file: FunctionFile) -> FunctionFile:
        source = Path(_local(file.uri)).absolute()
        if not source.is_file():
            raise DefinitionInvalid(
                f"Function {name}: there is no file {file.uri} on the gateway's machine; give the path of a file there."
            )
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            part = self._folder / f"{uuid4().hex}.part"
            # The hash of the copy: the file may change meanwhile.
            shutil.copyfile(source, part)
            kept = replace(file, uri=str(source), content=_hash_of(part))
            part.replace(self._folder / _name(kept))
            self._used.add(_name(kept))
            return kept


def _name(file: FunctionFile) -> str:
    return f"{file.content}{_SUFFIXES[file.kind]}"


def _hash_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _local(uri: str) -> str:
    url = urlsplit(uri)
    if url.scheme not in {"", "file"}:
        raise DefinitionInvalid(f"File {uri} is not on the gateway's machine; copy it there, and name its path.")
    return unquote(url.path) if url.scheme else uri
