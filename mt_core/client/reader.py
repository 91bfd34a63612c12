"""The rows of a result as a program reads them: a page at a time from the gateway, any number at a time from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mt_core.client.exceptions import NotSupportedError
from mt_core.client.http import ResultPage
from mt_core.extras import installation
from mt_core.rowset import Column

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

Row = tuple[Any, ...]
Page = Any  # ResultPage | pa.Table, which is there at run time only if pyarrow is
Convert = Callable[[Page], Iterator[list[Row]]]


_ARROW_ROOTS = frozenset(
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
    """Reads pages in turn, *limit* rows at most. `token` is the page being read, and `taken` how many of its rows were read."""

    def __init__(self, first: ResultPage, others: Iterator[Page], convert: Convert, limit: int | None = None) -> None:
        self._left = limit
        self._others, self._convert = others, convert
        self._chunks, self._chunk, self._at = convert(first), list[Row](), 0
        self.token, self.taken = 0, 0

    def take(self, size: int | None) -> list[Row]:
        """Return the next *size* rows (None: all), fewer at the end."""
        if self._left is not None:
            size = self._left if size is None else min(size, self._left)
        found: list[Row] = []
        while size is None or len(found) < size:
            if self._at >= len(self._chunk) and not self._turn():
                break
            end = None if size is None else self._at + size - len(found)
            part = self._chunk[self._at : end]
            self._at += len(part)
            self.taken += len(part)
            found += part
        if self._left is not None:
            self._left -= len(found)
        return found

    def tables(self, pages: Iterator[T], table_of: Callable[[T], pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows that are left from *pages*, the same ones from page `token` on: they are read there instead of here."""
        skipped = self.taken
        self._others, self._chunks, self._chunk, self.taken = iter(()), iter(()), [], 0
        self._at = 0
        for page in pages:
            table = table_of(page).slice(skipped, self._left)
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


def json_chunks(
    convert: Callable[[Sequence[Sequence[Any]]], Iterator[Row]],
) -> Callable[[ResultPage], Iterator[list[Row]]]:
    """Return what yields the rows of a JSON page as one list, made by *convert*."""
    return lambda page: iter((list(convert(page.rows)),))


def has_arrow_rows(columns: Sequence[Column]) -> bool:
    """Whether Arrow gives all of *columns* as the driver's Python objects; nested types and intervals come as JSON."""
    return all(column.type.root in _ARROW_ROOTS for column in columns)


def pyarrow_for(method: str) -> Any:
    """Return the module pyarrow; raises NotSupportedError when it is not installed."""
    try:
        import pyarrow
    except ModuleNotFoundError as cause:
        raise NotSupportedError(f"{method}() needs the package pyarrow; {installation('client')}.") from cause
    return pyarrow
