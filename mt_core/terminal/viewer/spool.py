"""A spool: the rows of a result, on disk, so that a person can look at any of them."""

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
# Some files of this size, since a process can have only so many open;
# and not one, whose beginning cannot be given back.
FILE_BYTES = 64 << 20
_SEGMENTS_IN_MEMORY = 4

Values = Sequence[Any]
"""A row as JSON has it, with decimals as such or as their texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """`SEGMENT_ROWS` rows as a list of JSON in `file`: `offset` is where it begins,
    and `ends` where each row ends after that.
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
        # A bracket or a comma comes before each row.
        begin = (self.ends[number - 1] if number else 0) + 1
        row: Values = json.loads(os.pread(self.file.fileno(), self.ends[number] - begin, self.offset + begin))
        return row


class Spool:
    """Rows in the order in which they came, in memory up to `SEGMENT_ROWS` of them; safe from any thread.

    Rows are numbered from 0 and keep their numbers: `first` is the oldest one that is there, `end` the number
    of the next. The files have no names, so that nobody else can open them, and nothing is left of them after
    a process that was killed. Raises ConfigError if they cannot be written.
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
        """Append *rows*."""
        with self._lock:
            self._newest += rows
            while len(self._newest) >= SEGMENT_ROWS:
                self._write(self._newest[:SEGMENT_ROWS])
                self._newest = self._newest[SEGMENT_ROWS:]

    def rows(self, start: int, stop: int) -> list[Values]:
        """Return the rows from number *start* up to, and without, *stop*; fewer where they are not there."""
        found: list[Values] = []
        with self._lock:
            for segment in range(max(start, self.first) // SEGMENT_ROWS, -(-stop // SEGMENT_ROWS)):
                if segment > self._written:
                    break
                begin = segment * SEGMENT_ROWS
                found += self._segment(segment)[max(0, start - begin) : stop - begin]
        return found

    def pick(self, numbers: Iterable[int]) -> list[Values]:
        """Return the rows of *numbers*, which are there, in that order."""
        with self._lock:
            return [self._row(*divmod(number, SEGMENT_ROWS)) for number in numbers]

    def drop(self, before: int) -> None:
        """Drop rows before number *before*, as far as they fill whole segments;
        a file goes with its last one.
        """
        with self._lock:
            while self._segments and self._dropped < before // SEGMENT_ROWS:
                file = self._segments.pop(0).file
                if not self._segments or self._segments[0].file is not file:
                    file.close()
                self._read.pop(self._dropped, None)
                self._dropped += 1

    def close(self) -> None:
        """Remove the files; the spool is empty then."""
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
                f"The rows cannot be kept in {gettempdir()}: {cause.strerror}; "
                "make room there, or set TMPDIR to another folder."
            ) from cause
        ends = array("Q", accumulate(len(text) + 1 for text in texts))
        self._segments.append(_Segment(file=file, offset=offset, ends=ends))

    def _place(self) -> tuple[IO[bytes], int]:
        """Return the file for the next segment, and where it begins there."""
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
