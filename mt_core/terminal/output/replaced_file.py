"""A replaced file: it is written without a name, or beside its place, and takes its place
when it is whole.
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
    """Give the path of an empty file which takes the place of *path* at the end of the block,
    and is removed after an error.

    Where the system has files without names, nothing is left of it after a process that was killed either.
    A link stays one, and a file keeps who may read it, also while it is written. Raises ConfigError.
    """
    place = path.resolve()
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        mode = 0o600 if place.exists() else 0o666
        with _unnamed(place.parent, mode) as unnamed:
            # A link that another user has put there must not be followed.
            beside.unlink(missing_ok=True)
            if unnamed is None:
                beside.touch(mode, exist_ok=False)
                yield beside
            else:
                yield unnamed
                # Python follows the link to the file only if it is given a folder,
                # which such a path does not need.
                os.link(unnamed, beside, src_dir_fd=0)
        with suppress(FileNotFoundError):
            shutil.copymode(place, beside)
        beside.replace(place)
    except OSError as cause:
        raise ConfigError(f"{path} cannot be written: {cause}") from cause
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _unnamed(folder: Path, mode: int) -> Iterator[Path | None]:
    """Give the path, for this process alone, of a file without a name in *folder*;
    None where there are no such files.
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
    """Rows as text, which take the place of *path* at the end of a block if they are `wanted`,
    or if Ctrl-C ends it.

    What is no file, such as a pipe or a terminal, gets them as they come.
    Raises ConfigError if nothing can be written there.
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
            with suppress(_Unwanted), self._stack:
                raise _Unwanted


class _Unwanted(Exception):
    """What is written is not to take its place."""
