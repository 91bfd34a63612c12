"""Reads the rows of a result in pages from the gateway, and returns them in any number to the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mt_core.base.extras import installation
from mt_core.client.exceptions import NotSupportedError
from mt_core.client.pages import ResultPage

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
Page = Any  # ResultPage | pa.Table, but pyarrow may not be installed
Convert = Callable[[Page], Iterator[list[Row]]]
# Types whose Arrow values convert to the same Python objects as JSON values. Nested types and intervals are
# fetched as JSON.
ARROW_ROOTS = frozenset(
    {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "CHAR",
        "VARCHAR",
        "BINARY",
        "VARBINARY",
        "DATE",
        "TIMESTAMP_WITHOUT_TIME_ZONE",
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    }
)


class PageReader:
    """Reads pages in order, up to *limit* rows.

    `token` is the number of the current page, `taken` the number of its rows read so far.
    """

    def __init__(
        self, first: ResultPage, others: Iterator[Page], convert: Convert, limit: int | None = None
    ) -> None:
        self._left = limit
        self._others, self._convert = others, convert
        self._chunks, self._chunk, self._at = convert(first), list[Row](), 0
        self.token, self.taken = 0, 0

    def take(self, size: int | None) -> list[Row]:
        """Return the next *size* rows, or all rows if it is None. At the end there may be fewer."""
        if self._left is not None:
            size = self._left if size is None else min(size, self._left)
        rows: list[Row] = []
        while size is None or len(rows) < size:
            if self._at >= len(self._chunk) and not self._turn():
                break
            end = None if size is None else self._at + size - len(rows)
            part = self._chunk[self._at : end]
            self._at += len(part)
            self.taken += len(part)
            rows += part
        if self._left is not None:
            self._left -= len(rows)
        return rows

    def tables(self, pages: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the remaining rows of *pages*, which are the same pages starting at `token`.

        Afterwards `take` returns no more rows.
        """
        skipped = self.taken
        self._others, self._chunks, self._chunk, self._at, self.taken = iter(()), iter(()), [], 0, 0
        for page in pages:
            table = page.slice(skipped, self._left)
            skipped = 0
            yield table
            if self._left is not None:
                self._left -= table.num_rows
                if not self._left:
                    return

    def _turn(self) -> bool:
        while (chunk := next(self._chunks, None)) is None:
            page = next(self._others, None)
            if page is None:
                return False
            self.token, self.taken = self.token + 1, 0
            self._chunks = self._convert(page)
        self._chunk, self._at = chunk, 0
        return True


@contextmanager
def needing(package: str, method: str) -> Iterator[None]:
    """Raise NotSupportedError if *package*, imported in the block, is not installed."""
    try:
        yield
    except ModuleNotFoundError as cause:
        raise NotSupportedError(
            f"{method}() needs the package {package}; {installation('client')}."
        ) from cause
