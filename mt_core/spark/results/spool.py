"""Spools: the unread rows of a result as Arrow batches, in memory or in temporary files.

A gateway serves many results whose clients may read slowly or never, so memory must be bounded across all
of them, and a result may be larger than memory. Batches are stored in memory while the shared budget lasts,
and then in append-only segment files. The order of rows does not depend on where they are stored.

Readers advance through a result and release the rows that they have read. A segment is deleted when its
last batch is released, so free space within files need not be tracked. The limit on disk is not strict:
`full` stops the producer between jobs, because rows that Spark has already computed must be stored. Files
have no name if the operating system permits it, so that a process that is killed does not leave any.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from mt_core.errors import EngineError
from mt_core.sessions.ports import ResultSpace

MEBIBYTE = 2**20
MAX_MEMORY = 256 * MEBIBYTE
MAX_DISK = 4096 * MEBIBYTE
SEGMENT_BYTES = 64 * MEBIBYTE
_PREFIX = "result-"


class Spools:
    """Creates the spools of a gateway. Thread-safe.

    *folder* must not contain anything else, because files of an earlier process are deleted. All spools
    share *max_memory* bytes of memory. Each spool should use up to *max_disk* bytes of files.
    """

    def __init__(
        self, folder: Path | None = None, *, max_memory: int = MAX_MEMORY, max_disk: int = MAX_DISK
    ) -> None:
        self.folder, self.max_disk = folder, max_disk
        self._lock = threading.Lock()
        self._max_memory = self._free_memory = max_memory
        self._on_disk = 0
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def new(self, schema: pa.Schema) -> Spool:
        """Return an empty spool for batches of *schema*. Files are created when they are needed."""
        return Spool(schema, self)

    def take_memory(self, size: int) -> bool:
        """Reserve *size* bytes of memory. Return False if they are not free."""
        with self._lock:
            if size > self._free_memory:
                return False
            self._free_memory -= size
            return True

    def give_memory(self, size: int) -> None:
        with self._lock:
            self._free_memory += size

    def count_disk(self, size: int) -> None:
        """Count *size* bytes more in files, or fewer if it is negative."""
        with self._lock:
            self._on_disk += size

    def space(self) -> ResultSpace:
        """Return the bytes that all spools use, and the limits."""
        return ResultSpace(
            memory=self._max_memory - self._free_memory,
            disk=self._on_disk,
            memory_limit=self._max_memory,
            disk_limit=self.max_disk,
        )


@dataclass(slots=True, kw_only=True)
class _Segment:
    """A file with consecutive batches. It is closed, and thereby deleted, after all of them are released."""

    file: IO[bytes]
    size: int = 0
    chunks: int = 0


@dataclass(slots=True, kw_only=True)
class _Chunk:
    """A batch in memory, or its position in a segment."""

    rows: int
    size: int
    batch: Any = None
    segment: _Segment | None = None
    offset: int = 0


class Spool:
    """An ordered sequence of batches, read by row number. Not thread-safe: the owner must lock it."""

    def __init__(self, schema: pa.Schema, spools: Spools) -> None:
        self._schema, self._spools = schema, spools
        self._chunks: list[_Chunk] = []
        # The number of the first row of each chunk.
        self._starts: list[int] = []
        self._segment: _Segment | None = None
        self._on_disk = 0
        self.rows = 0

    @property
    def full(self) -> bool:
        """True if the files have reached their limit. Rows must be released before more are added."""
        return self._on_disk >= self._spools.max_disk

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises EngineError if they cannot be written."""
        if not batch.num_rows:
            return
        size = batch.get_total_buffer_size()
        chunk = _Chunk(rows=batch.num_rows, size=size)
        if self._spools.take_memory(size):
            chunk.batch = batch
        else:
            self._write(chunk, batch)
        self._starts.append(self.rows)
        self._chunks.append(chunk)
        self.rows += chunk.rows

    def read(self, start: int, count: int) -> list[pa.RecordBatch]:
        """Return the available rows from *start* to *start* + *count*. They must not have been released."""
        batches = []
        for chunk, first, rows in self._parts(start, min(start + count, self.rows)):
            batch = chunk.batch
            if chunk.segment is not None:
                try:
                    chunk.segment.file.seek(chunk.offset)
                    message = chunk.segment.file.read(chunk.size)
                except OSError as cause:
                    raise self._unusable("read", cause) from cause
                batch = pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)
            batches.append(batch.slice(first, rows))
        return batches

    def fitting(self, start: int, count: int, size: int) -> int:
        """Return how many of *count* rows, starting at *start*, are available and fit in about *size* bytes.

        The first row always fits. The size of a row is estimated as the average of its chunk.
        """
        fitting = 0
        for chunk, _, rows in self._parts(start, min(start + count, self.rows)):
            room = max(int(size * chunk.rows / max(chunk.size, 1)), 0 if fitting else 1)
            fitting += min(rows, room)
            if room < rows:
                break
            size -= chunk.size * rows // chunk.rows
        return fitting

    def release(self, before: int) -> None:
        """Release the batches that end before row *before*."""
        count = max(bisect_right(self._starts, before) - 1, 0) if before < self.rows else len(self._chunks)
        for chunk in self._chunks[:count]:
            segment = chunk.segment
            if segment is None:
                self._spools.give_memory(chunk.size)
                continue
            self._on_disk -= chunk.size
            self._spools.count_disk(-chunk.size)
            segment.chunks -= 1
            if not segment.chunks and segment is not self._segment:
                with suppress(OSError):
                    segment.file.close()
        del self._chunks[:count], self._starts[:count]

    def close(self) -> None:
        """Release everything."""
        self.release(self.rows)
        segment, self._segment = self._segment, None
        if segment is not None:
            # Closing retries a write that failed on a full disk. Ignore the repeated error.
            with suppress(OSError):
                segment.file.close()

    def _parts(self, start: int, end: int) -> Iterator[tuple[_Chunk, int, int]]:
        """Yield the chunks with rows *start* to *end*, each with the offset and number of these rows."""
        index = max(bisect_right(self._starts, start) - 1, 0)
        while index < len(self._chunks) and start < end:
            chunk, first = self._chunks[index], start - self._starts[index]
            rows = min(chunk.rows - first, end - start)
            yield chunk, first, rows
            start, index = start + rows, index + 1

    def _write(self, chunk: _Chunk, batch: pa.RecordBatch) -> None:
        message = batch.serialize()
        try:
            segment = self._open_segment()
            segment.file.seek(segment.size)
            segment.file.write(message)
            segment.file.flush()
        except OSError as cause:
            raise self._unusable("written", cause) from cause
        chunk.segment, chunk.offset, chunk.size = segment, segment.size, message.size
        segment.size += message.size
        segment.chunks += 1
        self._on_disk += message.size
        self._spools.count_disk(message.size)

    def _open_segment(self) -> _Segment:
        """Return a segment with space. The last segment is reused after all its batches are released."""
        segment = self._segment
        if segment is not None and not segment.chunks:
            segment.file.truncate(0)
            segment.size = 0
        elif segment is None or segment.size >= SEGMENT_BYTES:
            folder = self._spools.folder
            if folder is not None:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The file is unnamed if the operating system permits it, so that a process that is killed does
            # not leave it. `release` or `close` closes it.
            file = tempfile.TemporaryFile(prefix=_PREFIX, dir=folder)  # noqa: SIM115
            segment = self._segment = _Segment(file=file)
        return segment

    def _unusable(self, what: str, cause: OSError) -> EngineError:
        place = self._spools.folder or Path(tempfile.gettempdir())
        return EngineError(
            f"Rows of the result cannot be {what} in {place}: {cause.strerror or cause}; "
            "make room there, or raise sql-gateway.result.max-memory."
        )
