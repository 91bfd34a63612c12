"""Files of the gateway's machine, which the gateway itself reads and writes."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4


def local_path(uri: str) -> Path | None:
    """Return the path that a URI, or a path, has on the gateway's machine; None for a file elsewhere."""
    url = urlsplit(uri)
    if url.scheme not in {"", "file"}:
        return None
    return Path(unquote(url.path) if url.scheme else uri)


class GatewayFile:
    """A file, which appears as a whole. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        return self._path.exists()

    def read(self) -> bytes:
        return self._path.read_bytes()

    def write(self, text: str, *, replace: bool) -> None:
        """Write the file, and the folders above it; raises FileExistsError unless it may *replace* one."""
        path = self._path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as cause:
            raise NotADirectoryError(f"{path.parent} is no folder") from cause
        part = path.with_name(f".{path.name}.{uuid4().hex}.part")
        try:
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                part.replace(path)
            else:
                # Unlike a rename it fails if another writer was faster.
                path.hardlink_to(part)
        finally:
            part.unlink(missing_ok=True)
