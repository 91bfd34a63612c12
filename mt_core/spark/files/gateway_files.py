"""Files on the gateway's machine, read and written by the gateway itself."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4


def local_path(uri: str) -> Path | None:
    """Return the local path of a URI or a path, or None for a remote file."""
    url = urlsplit(uri)
    if url.scheme not in {"", "file"}:
        return None
    return Path(unquote(url.path) if url.scheme else uri)


class GatewayFile:
    """A local file, written atomically. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        return self._path.exists()

    def read(self) -> bytes:
        return self._path.read_bytes()

    def write(self, text: str, *, replace: bool) -> None:
        """Write the file and create its parent folders.

        Raises FileExistsError if the file exists and *replace* is false.
        """
        path = self._path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as cause:
            raise NotADirectoryError(f"{path.parent} is not a folder") from cause
        part = path.with_name(f".{path.name}.{uuid4().hex}.part")
        try:
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                part.replace(path)
            else:
                # Unlike a rename, a hard link fails if another writer has created the file.
                path.hardlink_to(part)
        finally:
            part.unlink(missing_ok=True)
