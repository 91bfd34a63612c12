"""The sink for file tables: each batch is written to a side folder, listed, and moved into the table."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import CommitConflict
from mt_core.model.stream_plan import SinkTarget
from mt_core.spark.connectors.connector_tables import stored_table
from mt_core.spark.connectors.files.folders import FileFolder, stored_folder, temporary_folders
from mt_core.spark.connectors.sink import PUBLISHED, Check, Sink, SinkAttempt, stored
from mt_core.spark.connectors.stream_errors import StreamBroken
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.files.hadoop_files import Files

LISTED = "_freshtable"
"""The subfolder of a table for the state of its streams. File readers ignore names that begin with `_`."""
_ATTEMPT, _LIST = "attempt-", ".json"


class FileSink(Sink):
    """The sink of one attempt of a job that writes a file table.

    A batch is committed when its list of files is written, which is atomic. Every later attempt reads the
    list and moves the files that have not been moved yet, so a repeated batch is not written twice. A
    reader may see some files of a batch before the others.
    """

    guarantee = "each batch once; its files appear one after the other"

    def __init__(self, target: SinkTarget, attempt: SinkAttempt) -> None:
        self._target, self._catalogs = target, attempt.catalogs
        self._job_id, self._attempt = attempt.job_id, attempt.number
        self._temporary = attempt.definition.temporary

    # ----------------------------------------------------------------------------------------------- attempts

    def open(self) -> None:
        """Take over the table and move the files that earlier attempts listed.

        Raises CommitConflict if a later attempt has taken over the table.
        """
        files, folders = self._files(), self._folders
        lists = self._lists(files)
        folders.make(lists)
        self._check_attempt(lists)
        folders.write(f"{lists}/{_ATTEMPT}{self._attempt}", "")
        self.batch = self._last(lists)
        if self.batch is not None:
            self._move(files, self.batch)

    def close(self) -> None:
        """Do nothing, because the gateway has already ended the attempt."""

    def forget(self) -> None:
        """Delete the job's state from the folder. Does nothing if the table does not exist."""
        with suppress(StreamBroken):
            self._folders.delete(self._lists(self._files()))

    def last_batch(self) -> int | None:
        """Return the last batch that the job committed, or None if there is none."""
        return self._last(self._lists(self._files()))

    # ------------------------------------------------------------------------------------------------ batches

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write *rows* to a side folder, list the files, move them, and return the row count."""
        check("write")
        files = self._files()
        lists = self._lists(files)
        aside = f"{lists}/{batch}-{self._attempt}-{uuid4().hex[:8]}"
        rows = stored(rows, self._target.stored_name).persist()
        try:
            count = rows.count()
            if count:
                rows.write.format(files.format).options(**files.options).partitionBy(
                    *files.partition_keys
                ).save(aside)
        finally:
            rows.unpersist()
        written = [path for path in self._folders.files_below(aside) if _is_data(path)] if count else []
        check("publish")
        self._check_attempt(lists)
        moves = {path: self._final(path, batch, number) for number, path in enumerate(written)}
        self._folders.write(
            f"{lists}/{batch}{_LIST}", json.dumps({"version": 1, "aside": aside, "files": moves})
        )
        self._move(files, batch)
        check(PUBLISHED)
        self.batch = batch
        return count

    def _final(self, path: str, batch: int, number: int) -> str:
        """Return the unique path in the table for a file of the side folder, in its partition folder."""
        folder, _, name = path.rpartition("/")
        ending = name[name.index(".") :] if "." in name else ""
        final = f"part-{self._job_id}-{batch}-{number}{ending}"
        return f"{folder}/{final}" if folder else final

    def _move(self, files: FileFolder, batch: int) -> None:
        """Move the files of a listed batch that are not in the table yet, and delete older lists."""
        folders, lists = self._folders, self._lists(files)
        body = json.loads(folders.read(f"{lists}/{batch}{_LIST}"))
        moves: dict[str, str] = body["files"]
        for path, final in moves.items():
            if folders.exists(f"{body['aside']}/{path}"):
                folders.make(f"{files.folder}/{final}".rpartition("/")[0])
                folders.move(f"{body['aside']}/{path}", f"{files.folder}/{final}")
        if files.has_catalog_partitions and moves:
            self._catalogs.session.sql(f"ALTER TABLE {self._target.stored_name} RECOVER PARTITIONS")
        for name in folders.names(lists):
            # These are lists of earlier batches, and side folders of attempts that did not list their files.
            if name != f"{batch}{_LIST}" and not name.startswith(_ATTEMPT):
                folders.delete(f"{lists}/{name}")

    # ----------------------------------------------------------------------------------------------- internal

    def _check_attempt(self, lists: str) -> None:
        later = [name for name in self._folders.names(lists) if name.startswith(_ATTEMPT)]
        if any(int(name.removeprefix(_ATTEMPT)) > self._attempt for name in later):
            raise CommitConflict(
                f"Another attempt of job {self._job_id} writes {display_name(self._target.table)}."
            )

    def _last(self, lists: str) -> int | None:
        names = (name.removesuffix(_LIST) for name in self._folders.names(lists) if name.endswith(_LIST))
        return max((int(name) for name in names if name.lstrip("-").isdecimal()), default=None)

    def _lists(self, files: FileFolder) -> str:
        return f"{files.folder}/{LISTED}/{self._job_id}"

    @property
    def _folders(self) -> Files:
        return Files(self._catalogs.session)

    def _files(self) -> FileFolder:
        name = self._target.table
        if len(name) == 1:
            # This is a temporary table of the job's session.
            return temporary_folders(self._temporary)[name[0].lower()]
        session: SparkSession = self._catalogs.session
        with active_session(session):
            table: Any = stored_table(session, self._target.stored_name)
            if table is None:
                raise StreamBroken(f"Table {display_name(name)}, which the job writes, was dropped.")
        return stored_folder(table)


def _is_data(path: str) -> bool:
    return not path.rpartition("/")[2].startswith(("_", "."))
