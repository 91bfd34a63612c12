"""Files of compiled plans, local or remote."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa

from mt_core.base.secrets import without_passwords
from mt_core.errors import DefinitionInvalid, EngineError, Unsupported
from mt_core.plans.errors import PlanExists, PlanInvalid, PlanNotFound
from mt_core.sessions.ports import PlanFiles
from mt_core.spark.driver.file_systems import check_file_system
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.files.gateway_files import GatewayFile, local_path
from mt_core.spark.files.remote_files import ObjectFile, RemoteFile, SparkFile, is_object

_FETCHED = ".fetched"


class StoredPlans(PlanFiles):
    """Reads and writes plan files. Thread-safe.

    A relative path refers to the session's subfolder of *folder*, which is removed with the session. A
    remote file is copied into this subfolder each time it is read.
    """

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self._driver, self._folder = driver, folder

    def exists(self, session_id: str, uri: str) -> bool:
        with self._file(session_id, uri) as file:
            return file.exists()

    def read(self, session_id: str, uri: str) -> str:
        with self._file(session_id, uri) as file:
            if not file.exists():
                raise PlanNotFound(
                    f"There is no plan {self._shown(session_id, uri)}; COMPILE PLAN writes it.", plan=uri
                )
            text = file.read() if isinstance(file, GatewayFile) else self._fetched(session_id, uri, file)
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as cause:
            raise PlanInvalid("the file", f"is not UTF-8 text: {cause}", plan=uri) from cause

    def write(self, session_id: str, uri: str, text: str, *, replace: bool) -> None:
        with self._file(session_id, uri) as file:
            if not replace and file.exists():
                raise PlanExists.at(uri)
            try:
                file.write(text, replace=replace)
            except FileExistsError as cause:
                # Another statement has written the file since the check.
                raise PlanExists.at(uri) from cause

    def close_session(self, session_id: str) -> None:
        """Remove the folder of a session."""
        shutil.rmtree(self._folder / session_id, ignore_errors=True)

    def begin(self) -> None:
        """Remove the folders of earlier processes. Must be called before the first session."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def _file(self, session_id: str, uri: str) -> Iterator[GatewayFile | RemoteFile]:
        """Yield the file at a URI, with its errors translated.

        Raises DefinitionInvalid if the URI is that of a folder or a device.
        """
        path = self._path(session_id, uri)
        with _engine_errors(uri):
            _check_file(uri, path)
        by_spark = path is None and not is_object(uri)
        with self._driver.translating() if by_spark else nullcontext(), _engine_errors(uri):
            if path is not None:
                yield GatewayFile(path)
            elif by_spark:
                session = self._driver.session
                check_file_system(session, uri, f"Plan {uri}")
                yield SparkFile(session, uri)
            else:
                yield ObjectFile(uri)

    def _fetched(self, session_id: str, uri: str, file: RemoteFile) -> bytes:
        """Copy the current remote file into the folder of the session and return its content."""
        name = f"{hashlib.sha256(uri.encode()).hexdigest()[:16]}.json"
        copy = self._folder / session_id / _FETCHED / name
        part = copy.with_name(f"{uuid4().hex}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            file.copy_here(part)
            text = part.read_bytes()
            part.replace(copy)
        finally:
            part.unlink(missing_ok=True)
        return text

    def _path(self, session_id: str, uri: str) -> Path | None:
        """Return the path of a local file, or None for a remote file."""
        local, folder, host = local_path(uri), self._folder / session_id, urlsplit(uri).netloc
        if local is None:
            return None
        if host not in {"", "localhost"}:
            raise Unsupported(
                f"Plan {uri}: file://{host} is on another machine; "
                "write file:///path for a file on the gateway's machine."
            )
        if "\0" in str(local):
            raise DefinitionInvalid("The path of a plan contains the character NUL; leave it out.")
        if local.is_absolute():
            return local
        path = (folder / local).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise DefinitionInvalid(
                f"Plan {uri} leaves the folder of the session, {folder}; "
                "name a file in it, or give an absolute path."
            )
        return path

    def _shown(self, session_id: str, uri: str) -> str:
        """Return the URI for a message. A relative path is shown with its folder."""
        relative = not urlsplit(uri).scheme and not Path(uri).is_absolute()
        return f"{uri} in the folder of the session, {self._folder / session_id}" if relative else uri


def _check_file(uri: str, path: Path | None) -> None:
    """Raise DefinitionInvalid if the URI is that of a folder or a device."""
    url = urlsplit(uri)
    at_root = path is None and bool(url.netloc) and not url.path
    if at_root or url.path.endswith("/") or (path is not None and path.is_dir()):
        raise DefinitionInvalid(
            f"Plan {uri} is a folder; name a file in it, "
            f"such as {uri.partition('?')[0].rstrip('/')}/plan.json."
        )
    if path is not None and path.exists() and not path.is_file():
        raise DefinitionInvalid(f"Plan {uri} is a device or another special file; name a regular file.")


@contextmanager
def _engine_errors(uri: str) -> Iterator[None]:
    """Raise OSError and Arrow's errors as EngineError."""
    try:
        yield
    except (OSError, pa.ArrowException) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise EngineError(
            f"Plan {uri} cannot be read or written: {without_passwords(reason).rstrip('.')}.", plan=uri
        ) from cause
