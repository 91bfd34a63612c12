"""Tables of files as sinks of a stream: each batch is written aside, listed,
and moved into the folder of the table.
"""

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
"""The folder in that of a table with what its streams have written;
readers of files pass over names with that first letter.
"""
_ATTEMPT, _LIST = "attempt-", ".json"


class FileSink(Sink):
    """One attempt of one job on a table of files.

    A batch is in the table once it is listed: its list is written in one step, and whoever finds a list moves
    the files that have not been moved. So a batch that is repeated is not written again. A reader may see
    some files of a batch a moment before the others.
    """

    guarantee = "each batch once; its files appear one after the other"

    def __init__(self, target: SinkTarget, attempt: SinkAttempt) -> None:
        self._target, self._catalogs = target, attempt.catalogs
        self._job_id, self._attempt = attempt.job_id, attempt.number
        self._temporary = attempt.definition.temporary

    # ----------------------------------------------------------------------------------------------- attempts

    def open(self) -> None:
        """Take the table over, and move what earlier attempts have listed.

        Raises CommitConflict if a later one has.
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
        """Nothing is kept from being written: the gateway has ended the attempt."""

    def forget(self) -> None:
        """Remove all that the folder says of the job; harmless if the table is gone."""
        with suppress(StreamBroken):
            self._folders.delete(self._lists(self._files()))

    def last_batch(self) -> int | None:
        """Return the last batch of the job that the table has, None before the first."""
        return self._last(self._lists(self._files()))

    # ------------------------------------------------------------------------------------------------ batches

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write *rows* aside, list the files, move them, and return how many rows that were."""
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
        """Return the path in the table of a file aside, which has the folders of its partition;
        no other batch has it.
        """
        folder, _, name = path.rpartition("/")
        ending = name[name.index(".") :] if "." in name else ""
        final = f"part-{self._job_id}-{batch}-{number}{ending}"
        return f"{folder}/{final}" if folder else final

    def _move(self, files: FileFolder, batch: int) -> None:
        """Move the files of a listed batch that are not in the table yet, and forget the lists before."""
        folders, lists = self._folders, self._lists(files)
        body = json.loads(folders.read(f"{lists}/{batch}{_LIST}"))
        moves: dict[str, str] = body["files"]
        for path, final in moves.items():
            if folders.exists(f"{body['aside']}/{path}"):
                folders.make(f"{files.folder}/{final}".rpartition("/")[0])
                folders.move(f"{body['aside']}/{path}", f"{files.folder}/{final}")
        if files.keeps_partitions and moves:
            self._catalogs.session.sql(f"ALTER TABLE {self._target.stored_name} RECOVER PARTITIONS")
        for name in folders.names(lists):
            # Of batches before this one, and of attempts that ended before they listed theirs.
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
            # No other session has it, and no stored table.
            return temporary_folders(self._temporary)[name[0].lower()]
        session: SparkSession = self._catalogs.session
        with active_session(session):
            table: Any = stored_table(session, self._target.stored_name)
            if table is None:
                raise StreamBroken(f"Table {display_name(name)}, which the job writes, was dropped.")
        return stored_folder(table)


def _is_data(path: str) -> bool:
    return not path.rpartition("/")[2].startswith(("_", "."))
