"""Files of compiled plans: on this machine, in object stores by Arrow, and on the file systems that Spark has jars for."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from mt_core.base.secrets import without_passwords
from mt_core.errors import DefinitionInvalid, EngineError, EngineUnavailable, Unsupported
from mt_core.plans.errors import PlanExists, PlanInvalid, PlanNotFound
from mt_core.sessions.ports import PlanFiles
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.file_systems import check_file_system
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.files.folders import Folders
from mt_core.spark.files.remote_files import Store, arrow_file, copy_by_arrow, store_of

_FETCHED = ".fetched"


class StoredPlans(PlanFiles):
    """Reads and writes them; a relative path begins in the session's own part of *folder*, which ends with the session.

    A remote file is fetched into that part each time it is read.

    Safe from any thread.
    """

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self._driver, self._folder = driver, folder

    def exists(self, session_id: str, uri: str) -> bool:
        self._check_file(session_id, uri)
        with _failing(uri):
            match store_of(uri):
                case Store.LOCAL:
                    return self._path(session_id, uri).exists()
                case Store.ARROW:
                    system, path = arrow_file(uri)
                    return bool(system.get_file_info(path).type != fs.FileType.NotFound)
                case _:
                    with self._hadoop(uri) as folders:
                        return folders.exists(uri)

    def read(self, session_id: str, uri: str) -> str:
        if not self.exists(session_id, uri):
            raise PlanNotFound(f"There is no plan {self._shown(session_id, uri)}; COMPILE PLAN writes it.", plan=uri)
        with _failing(uri):
            local = store_of(uri) is Store.LOCAL
            text = self._path(session_id, uri).read_bytes() if local else self._fetched(session_id, uri)
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as cause:
            raise PlanInvalid("the file", f"is no text in UTF-8: {cause}", plan=uri) from cause

    def write(self, session_id: str, uri: str, text: str, *, replace: bool) -> None:
        self._check_file(session_id, uri)
        if not replace and self.exists(session_id, uri):
            raise PlanExists.at(uri)
        with _failing(uri):
            match store_of(uri):
                case Store.LOCAL:
                    _write_local(self._path(session_id, uri), uri, text, replace=replace)
                case Store.ARROW:
                    system, path = arrow_file(uri)
                    # An object appears with its end.
                    with system.open_output_stream(path) as stream:
                        stream.write(text.encode())
                case _:
                    with self._hadoop(uri) as folders:
                        _write_hadoop(folders, uri, text, replace=replace)

    def close_session(self, session_id: str) -> None:
        """Remove the folder of a session."""
        shutil.rmtree(self._folder / session_id, ignore_errors=True)

    def begin(self) -> None:
        """Remove what the sessions of earlier processes left; to be called before any session begins."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _fetched(self, session_id: str, uri: str) -> bytes:
        """Copy a remote file, as it is now, into the part of the session, and return what is in it."""
        name = f"{hashlib.sha256(uri.encode()).hexdigest()[:16]}.json"
        copy = self._folder / session_id / _FETCHED / name
        part = copy.with_name(f"{uuid4().hex}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            if store_of(uri) is Store.ARROW:
                copy_by_arrow(uri, part)
            else:
                with self._hadoop(uri) as folders:
                    folders.copy_here(uri, part)
            text = part.read_bytes()
            part.replace(copy)
        finally:
            part.unlink(missing_ok=True)
        return text

    def _check_file(self, session_id: str, uri: str) -> None:
        """Raise DefinitionInvalid for a URI that is one of a folder, or of a device."""
        url, local = urlsplit(uri), store_of(uri) is Store.LOCAL
        path = self._path(session_id, uri) if local else None
        at_root = path is None and bool(url.netloc) and not url.path
        with _failing(uri):
            if at_root or url.path.endswith("/") or (path is not None and path.is_dir()):
                raise DefinitionInvalid(
                    f"Plan {uri} is a folder; name a file in it, such as {uri.partition('?')[0].rstrip('/')}/plan.json."
                )
            if path is not None and path.exists() and not path.is_file():
                raise DefinitionInvalid(f"Plan {uri} is no file, but a device or the like; name a file.")

    def _path(self, session_id: str, uri: str) -> Path:
        url = urlsplit(uri)
        if url.netloc not in {"", "localhost"}:
            raise Unsupported(
                f"Plan {uri}: file://{url.netloc} names another machine; write file:///path for a file of the gateway's."
            )
        given, folder = Path(unquote(url.path) if url.scheme else uri), self._folder / session_id
        if "\0" in str(given):
            raise DefinitionInvalid("The path of a plan contains the character NUL; leave it out.")
        if given.is_absolute():
            return given
        path = (folder / given).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise DefinitionInvalid(
                f"Plan {uri} leaves the folder of the session, {folder}; name a file in it, or give the whole path."
            )
        return path

    def _shown(self, session_id: str, uri: str) -> str:
        """Return the URI; for a relative path with the folder where it begins."""
        path = Path(uri)
        relative = store_of(uri) is Store.LOCAL and not urlsplit(uri).scheme and not path.is_absolute()
        return f"{uri} in the folder of the session, {self._folder / session_id}" if relative else uri

    @contextmanager
    def _hadoop(self, uri: str) -> Iterator[Folders]:
        with self._driver.translating():
            session = self._driver.session
            check_file_system(session, uri, f"Plan {uri}")
            try:
                yield Folders(session)
            except SPARK_ERRORS as cause:
                error = translate(cause)
                if isinstance(error, EngineUnavailable):
                    raise error from cause
                raise EngineError(
                    f"Plan {uri} cannot be read or written: {without_passwords(error.message).rstrip('.')}.", plan=uri
                ) from cause


def _write_local(path: Path, uri: str, text: str, *, replace: bool) -> None:
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
            # Unlike a rename it fails if another statement has written the file meanwhile.
            path.hardlink_to(part)
    except FileExistsError as cause:
        raise PlanExists.at(uri) from cause
    finally:
        part.unlink(missing_ok=True)


def _write_hadoop(folders: Folders, uri: str, text: str, *, replace: bool) -> None:
    part = f"{uri}.{uuid4().hex}"
    folders.write(part, text)
    if replace:
        # What a crash leaves is the new text beside the place of the old one.
        folders.delete(uri)
    folders.move(part, uri)
    if folders.exists(part):
        # Another statement has written the file meanwhile.
        folders.delete(part)
        raise PlanExists.at(uri)


@contextmanager
def _failing(uri: str) -> Iterator[None]:
    """Turn the errors of this machine's files and of Arrow into ours."""
    try:
        yield
    except (OSError, pa.ArrowException) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise EngineError(
            f"Plan {uri} cannot be read or written: {without_passwords(reason).rstrip('.')}.", plan=uri
        ) from cause
