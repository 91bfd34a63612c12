"""Spools: the rows of one result as Arrow batches, in memory as far as there is room, else in files that go when read."""

from __future__ import annotations

import shutil
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from mt_core.errors import EngineError

MEBIBYTE = 2**20
MAX_MEMORY = 256 * MEBIBYTE
MAX_DISK = 4096 * MEBIBYTE
SEGMENT_BYTES = 64 * MEBIBYTE
_PREFIX = "result-"


class MemoryBudget:
    """Bytes that all results together may have in memory; safe from any thread."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._left = limit

    def take(self, size: int) -> bool:
        """Take *size* bytes if there are as many, and return whether there were."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        with self._lock:
            self._left += size


class Spools:
    """Makes the spools of a gateway. *folder* holds nothing else: what an earlier process left there is removed.

    All spools share *max_memory* bytes of memory; *max_disk* is how many bytes in files one of them should not exceed.
    """

    def __init__(self, folder: Path | None = None, *, max_memory: int = MAX_MEMORY, max_disk: int = MAX_DISK) -> None:
        self._folder, self.max_disk = folder, max_disk
        self._memory = MemoryBudget(max_memory)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def new(self, schema: pa.Schema) -> Spool:
        """Return an empty spool for batches of *schema*; it makes no file before it has to."""
        return Spool(schema, self._folder, self._memory, max_disk=self.max_disk)


@dataclass(slots=True, kw_only=True)
class _Segment:
    """One file with batches one after the other; gone as soon as none of them is wanted any more."""

    file: IO[bytes]
    size: int = 0
    chunks: int = 0


@dataclass(slots=True, kw_only=True)
class _Chunk:
    """One batch: itself, or where it lies in a segment."""

    rows: int
    size: int
    batch: pa.RecordBatch | None = None
    segment: _Segment | None = None
    offset: int = 0


class Spool:
    """Batches in order, to be read by the numbers of their rows. Not safe from several threads: its owner has the lock."""

    def __init__(self, schema: pa.Schema, folder: Path | None, memory: MemoryBudget, *, max_disk: int) -> None:
        self._schema, self._folder, self._memory, self._max_disk = schema, folder, memory, max_disk
        self._chunks: list[_Chunk] = []
        # The number of the first row of each chunk.
        self._starts: list[int] = []
        self._segment: _Segment | None = None
        self._on_disk = 0
        self.rows = 0

    @property
    def full(self) -> bool:
        """Whether there is so much in files that nothing should come before some of it was released."""
        return self._on_disk >= self._max_disk

    def append(self, batch: pa.RecordBatch) -> None:
        """Take in more rows; raises EngineError when they cannot be written."""
        if not batch.num_rows:
            return
        size = batch.get_total_buffer_size()
        chunk = _Chunk(rows=batch.num_rows, size=size)
        if self._memory.take(size):
            chunk.batch = batch
        else:
            self._write(chunk, batch)
        self._starts.append(self.rows)
        self._chunks.append(chunk)
        self.rows += chunk.rows

    def read(self, start: int, count: int) -> list[pa.RecordBatch]:
        """Return rows *start* to *start* + *count*, as far as they are there; those released must not be asked for."""
        return [
            self._batch(chunk).slice(first, rows)
            for chunk, first, rows in self._parts(start, min(start + count, self.rows))
        ]

    def fitting(self, start: int, count: int, size: int) -> int:
        """Return how many of the *count* rows from *start* on are there and fit into *size* bytes; one is never too many."""
        fitting = 0
        for chunk, _, rows in self._parts(start, min(start + count, self.rows)):
            room = max(int(size * chunk.rows / max(chunk.size, 1)), 0 if fitting else 1)
            fitting += min(rows, room)
            if room < rows:
                break
            size -= chunk.size * rows // chunk.rows
        return fitting

    def release(self, before: int) -> None:
        """Forget rows whose numbers are smaller than *before*, as far as whole batches go."""
        wanted = max(bisect_right(self._starts, before) - 1, 0) if before < self.rows else len(self._chunks)
        for chunk in self._chunks[:wanted]:
            self._drop(chunk)
        del self._chunks[:wanted], self._starts[:wanted]

    def close(self) -> None:
        """Forget everything."""
        self.release(self.rows)
        segment, self._segment = self._segment, None
        if segment is not None:
            # What a full disk had no room for is written once more here, in vain, and nobody wants it.
            with suppress(OSError):
                segment.file.close()

    def _parts(self, start: int, end: int) -> Iterator[tuple[_Chunk, int, int]]:
        """Yield the chunks that hold rows *start* to *end*, with the first row wanted of each and how many."""
        index = max(bisect_right(self._starts, start) - 1, 0)
        while index < len(self._chunks) and start < end:
            chunk, first = self._chunks[index], start - self._starts[index]
            rows = min(chunk.rows - first, end - start)
            yield chunk, first, rows
            start, index = start + rows, index + 1

    def _batch(self, chunk: _Chunk) -> pa.RecordBatch:
        if chunk.batch is not None or chunk.segment is None:
            return chunk.batch
        try:
            chunk.segment.file.seek(chunk.offset)
            found = chunk.segment.file.read(chunk.size)
        except OSError as cause:
            raise _unusable("read", self._folder, cause) from cause
        return pa.ipc.read_record_batch(pa.py_buffer(found), self._schema)

    def _write(self, chunk: _Chunk, batch: pa.RecordBatch) -> None:
        message = batch.serialize()
        try:
            segment = self._room()
            segment.file.seek(segment.size)
            segment.file.write(message)
            segment.file.flush()
        except OSError as cause:
            raise _unusable("written", self._folder, cause) from cause
        chunk.segment, chunk.offset, chunk.size = segment, segment.size, message.size
        segment.size += message.size
        segment.chunks += 1
        self._on_disk += message.size

    def _room(self) -> _Segment:
        """Return a segment to write to; the last one is used again when nothing of it is wanted any more."""
        if self._segment is None or (self._segment.chunks and self._segment.size >= SEGMENT_BYTES):
            self._segment = _Segment(file=self._new_file())
        elif not self._segment.chunks:
            self._segment.file.truncate(0)
            self._segment.size = 0
        return self._segment

    def _new_file(self) -> IO[bytes]:
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It has no name where the system allows that, so that a process that is killed leaves nothing.
        return tempfile.TemporaryFile(prefix=_PREFIX, dir=self._folder)

    def _drop(self, chunk: _Chunk) -> None:
        if chunk.segment is None:
            self._memory.give(chunk.size)
            return
        self._on_disk -= chunk.size
        chunk.segment.chunks -= 1
        if not chunk.segment.chunks and chunk.segment is not self._segment:
            with suppress(OSError):
                chunk.segment.file.close()


def _unusable(what: str, folder: Path | None, cause: OSError) -> EngineError:
    place = folder or Path(tempfile.gettempdir())
    return EngineError(
        f"Rows of the result cannot be {what} in {place}: {cause.strerror or cause}; make room there, or raise "
        "sql-gateway.result.max-memory."
    )
