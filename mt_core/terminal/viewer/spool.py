"""A spool: the rows of a result on disk, with random access."""

from __future__ import annotations

import json
import os
import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from mt_core.errors import ConfigError

SEGMENT_ROWS = 1_000
# There are several files, because the beginning of a single file could not be freed. They are large, because
# the number of open files is limited.
FILE_BYTES = 64 << 20
_SEGMENTS_IN_MEMORY = 4

Values = Sequence[Any]
"""A row as parsed from JSON, with decimals as Decimal or as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """`SEGMENT_ROWS` rows as a JSON list in `file`, starting at `offset`.

    `ends` are the ends of the rows, relative to `offset`.
    """

    file: IO[bytes]
    offset: int
    ends: array[int]

    @property
    def end(self) -> int:
        return self.offset + self.ends[-1] + 1

    def read(self) -> list[Values]:
        rows: list[Values] = json.loads(os.pread(self.file.fileno(), self.end - self.offset, self.offset))
        return rows

    def row(self, number: int) -> Values:
        # Each row is preceded by a bracket or a comma.
        begin = (self.ends[number - 1] if number else 0) + 1
        row: Values = json.loads(os.pread(self.file.fileno(), self.ends[number] - begin, self.offset + begin))
        return row


class Spool:
    """Rows in order of arrival. The last rows, fewer than `SEGMENT_ROWS`, are in memory. Thread-safe.

    Rows are numbered from 0 and never renumbered. `first` is the number of the oldest stored row, `end` that
    of the next row. The files are unnamed, so no other process can open them and a killed process leaves
    nothing behind. Raises ConfigError if they cannot be written.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dropped = 0
        self._segments: list[_Segment] = []
        self._newest: list[Values] = []
        self._read: dict[int, list[Values]] = {}

    @property
    def first(self) -> int:
        return self._dropped * SEGMENT_ROWS

    @property
    def end(self) -> int:
        with self._lock:
            return self._written * SEGMENT_ROWS + len(self._newest)

    def add(self, rows: Sequence[Values]) -> None:
        """Append *rows*. Full segments of `SEGMENT_ROWS` rows are written to disk."""
        with self._lock:
            self._newest += rows
            while len(self._newest) >= SEGMENT_ROWS:
                self._write(self._newest[:SEGMENT_ROWS])
                self._newest = self._newest[SEGMENT_ROWS:]

    def rows(self, start: int, stop: int) -> list[Values]:
        """Return the rows from number *start* to *stop* (exclusive), omitting rows that are not stored."""
        rows: list[Values] = []
        with self._lock:
            for segment in range(max(start, self.first) // SEGMENT_ROWS, -(-stop // SEGMENT_ROWS)):
                if segment > self._written:
                    break
                begin = segment * SEGMENT_ROWS
                rows += self._segment(segment)[max(0, start - begin) : stop - begin]
        return rows

    def pick(self, numbers: Iterable[int]) -> list[Values]:
        """Return the rows with *numbers*, in that order. All of them must be stored."""
        with self._lock:
            return [self._row(*divmod(number, SEGMENT_ROWS)) for number in numbers]

    def drop(self, before: int) -> None:
        """Drop the segments that end before row number *before*. A file is closed with its last segment."""
        with self._lock:
            while self._segments and self._dropped < before // SEGMENT_ROWS:
                file = self._segments.pop(0).file
                if not self._segments or self._segments[0].file is not file:
                    file.close()
                self._read.pop(self._dropped, None)
                self._dropped += 1

    def close(self) -> None:
        """Remove the files and empty the spool."""
        self.drop(self.end)
        with self._lock:
            self._newest = []

    @property
    def _written(self) -> int:
        return self._dropped + len(self._segments)

    def _write(self, rows: list[Values]) -> None:
        texts = [json.dumps(row, default=str) for row in rows]
        try:
            file, offset = self._place()
            _write_at(file, offset, f"[{','.join(texts)}]".encode("ascii"))
        except OSError as cause:
            raise ConfigError(
                f"The rows cannot be stored in {gettempdir()}: {cause.strerror}; "
                "free space there, or set TMPDIR to another folder."
            ) from cause
        ends = array("Q", accumulate(len(text) + 1 for text in texts))
        self._segments.append(_Segment(file=file, offset=offset, ends=ends))

    def _place(self) -> tuple[IO[bytes], int]:
        """Return the file for the next segment and the offset in it."""
        if self._segments and (end := self._segments[-1].end) < FILE_BYTES:
            return self._segments[-1].file, end
        return TemporaryFile(prefix="freshtable-"), 0

    def _row(self, segment: int, number: int) -> Values:
        if segment == self._written or segment in self._read:
            return self._segment(segment)[number]
        return self._segments[segment - self._dropped].row(number)

    def _segment(self, number: int) -> list[Values]:
        if number == self._written:
            return self._newest
        if number not in self._read:
            while len(self._read) >= _SEGMENTS_IN_MEMORY:
                del self._read[next(iter(self._read))]
            self._read[number] = self._segments[number - self._dropped].read()
        return self._read[number]


def _write_at(file: IO[bytes], offset: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        written = os.pwrite(file.fileno(), rest, offset)
        rest, offset = rest[written:], offset + written
