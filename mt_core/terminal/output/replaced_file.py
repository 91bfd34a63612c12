"""Atomic replacement of files.

A file is written under another name, or without one, and renamed when it is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from mt_core.errors import ConfigError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of an empty file that replaces *path* at the end of the block.

    After an error, the new file is removed. If the system supports unnamed files, even a killed process
    leaves nothing behind. A symbolic link remains a link, and a file keeps its permissions, even while it is
    written. Raises ConfigError.
    """
    place = path.resolve()
    new_file = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        mode = 0o600 if place.exists() else 0o666
        with _unnamed(place.parent, mode) as unnamed:
            # Do not follow a link that another user has put there.
            new_file.unlink(missing_ok=True)
            if unnamed is None:
                new_file.touch(mode, exist_ok=False)
                yield new_file
            else:
                yield unnamed
                # os.link follows the /proc link only if it is given a directory descriptor, which it ignores
                # for an absolute path.
                os.link(unnamed, new_file, src_dir_fd=0)
        with suppress(FileNotFoundError):
            shutil.copymode(place, new_file)
        new_file.replace(place)
    except OSError as cause:
        raise ConfigError(f"{path} cannot be written: {cause}") from cause
    finally:
        new_file.unlink(missing_ok=True)


@contextmanager
def _unnamed(folder: Path, mode: int) -> Iterator[Path | None]:
    """Yield the path of an unnamed file in *folder*, which is valid only in this process.

    Yield None if the system does not support such files.
    """
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, mode)
    except (AttributeError, OSError):
        yield None
        return
    try:
        path = Path("/proc/self/fd", str(descriptor))
        yield path if path.exists() else None
    finally:
        os.close(descriptor)


class TextFile(AbstractContextManager["TextFile"]):
    """Rows as text, which replace the file at *path* at the end of the block.

    They do so only if `wanted` is true or Ctrl-C ended the block. A pipe, a terminal or another special file
    receives the rows as they arrive. Raises ConfigError if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._stack, self.wanted = ExitStack(), False
        has_place = path.is_file() or not path.exists()
        try:
            written = self._stack.enter_context(replacing(path)) if has_place else path
            self.rows: IO[str] = self._stack.enter_context(written.open("w", encoding="utf-8", newline=""))
        except OSError as cause:
            raise ConfigError(f"{path} cannot be written: {cause}") from cause

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.wanted or kind is KeyboardInterrupt:
            self._stack.close()
        else:
            with suppress(_Discard), self._stack:
                raise _Discard


class _Discard(Exception):
    """Discards the new file, so that the old one stays."""
