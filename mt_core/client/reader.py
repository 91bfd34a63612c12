"""The rows of a result as a program reads them: a page at a time from the gateway, any number at a time from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mt_core.client.exceptions import NotSupportedError
from mt_core.client.http import ResultPage
from mt_core.extras import installation

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

Row = tuple[Any, ...]
Convert = Callable[[Sequence[Sequence[Any]]], Iterator[Row]]


class PageReader:
    """Reads pages in turn, *limit* rows at most. `token` is the page being read, and `taken` how many of its rows were read."""

    def __init__(
        self, first: ResultPage, others: Iterator[ResultPage], convert: Convert, limit: int | None = None
    ) -> None:
        self._left = limit
        self._others, self._convert = others, convert
        self._page = list(convert(first.rows))
        self.token, self.taken = 0, 0

    def take(self, size: int | None) -> list[Row]:
        """Return the next *size* rows (None: all), fewer at the end."""
        if self._left is not None:
            size = self._left if size is None else min(size, self._left)
        found: list[Row] = []
        while size is None or len(found) < size:
            if self.taken >= len(self._page) and not self._turn():
                break
            end = None if size is None else self.taken + size - len(found)
            part = self._page[self.taken : end]
            self.taken += len(part)
            found += part
        if self._left is not None:
            self._left -= len(found)
        return found

    def tables(self, pages: Iterator[T], table_of: Callable[[T], pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows that are left from *pages*, the same ones from page `token` on: they are read there instead of here."""
        skipped = self.taken
        self._others, self._page, self.taken = iter(()), [], 0
        for page in pages:
            table = table_of(page).slice(skipped, self._left)
            skipped = 0
            yield table
            if self._left is not None:
                self._left -= table.num_rows
                if not self._left:
                    return

    def _turn(self) -> bool:
        page = next(self._others, None)
        if page is None:
            return False
        self.token, self.taken = self.token + 1, 0
        self._page = list(self._convert(page.rows))
        return True


def pyarrow_for(method: str) -> Any:
    """Return the module pyarrow; raises NotSupportedError when it is not installed."""
    try:
        import pyarrow
    except ModuleNotFoundError as cause:
        raise NotSupportedError(f"{method}() needs the package pyarrow; {installation('client')}.") from cause
    return pyarrow
