"""Result pages by token. A client can fetch the next page, or repeat the last one after a lost response."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from mt_core.base.rowset import PageForm, RowKind
from mt_core.errors import RequestInvalid
from mt_core.sessions.ports import ResultRows

PAGE_SIZE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of rows, either in `rows` or encoded in `body`. The `last` page is empty.

    `kinds` contains the kind of each row, or is None if the result only adds rows.
    """

    rows: list[list[Any]]
    last: bool
    body: bytes | memoryview | None = None
    kinds: list[RowKind] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """The range of rows in a page."""

    start: int
    count: int
    last: bool


class ResultPages:
    """Divides a result into pages, in order; each fetch takes the rows available then. Thread-safe.

    Rows that no valid token refers to are released.
    """

    def __init__(self, rows: ResultRows, *, page_size: int = PAGE_SIZE) -> None:
        self._rows, self._page_size = rows, page_size
        self._lock = threading.Lock()
        self._current = 0
        self._previous = _Span(start=0, count=0, last=False)
        self._ended_at: int | None = None

    def wait(self, token: int, timeout_s: float) -> bool:
        """Wait until page *token* has rows or is the last page, for up to *timeout_s* seconds.

        Returns whether the page can be fetched. A page that was fetched before can be fetched immediately.
        """
        start = self._previous.start + self._previous.count
        if token != self._current or self._ended_at is not None or not self._rows.running:
            return True
        return self._rows.available(start, 1, timeout_s) > 0 or not self._rows.running

    def fetch(self, token: int, size: int | None = None, form: PageForm | None = None) -> Page:
        """Return page *token*. A new page has up to *size* rows; with *form*, they are encoded if possible.

        Raises RequestInvalid naming the tokens that can be fetched, or the error of the query if it failed
        before this page.
        """
        with self._lock:
            span = self._span(token, size or self._page_size)
            body = self._rows.encoded(span.start, span.count, form) if form is not None else None
            if body is not None:
                return Page(rows=[], body=body, last=span.last)
            rows = self._rows.page(span.start, span.count)
            kinds = self._rows.kinds(span.start, span.count) if self._rows.changelog else None
            return Page(rows=rows, last=span.last, kinds=kinds)

    def _span(self, token: int, size: int) -> _Span:
        start = self._previous.start + self._previous.count
        if self._ended_at is not None and token in (self._ended_at, self._ended_at + 1):
            return _Span(start=start, count=0, last=True)
        if token < 0 or token not in (self._current, self._current - 1):
            expected = f"{self._current} or {self._current - 1}" if self._current else "0"
            raise RequestInvalid(f"Expecting token to be {expected}, but found {token}.")
        if token == self._current - 1:
            return self._previous
        running = self._rows.running
        count = self._rows.available(start, size, 0)
        if not count and not running:
            # This raises the error of a failed query.
            self._rows.page(start, 1)
            self._ended_at = token
            return _Span(start=start, count=0, last=True)
        self._rows.release(start)
        self._previous = _Span(start=start, count=count, last=False)
        self._current += 1
        return self._previous
