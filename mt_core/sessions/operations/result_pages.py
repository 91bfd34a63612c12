"""The pages of a result, fetched by token: the current or the previous one, so that a lost answer can be repeated."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from mt_core.errors import RequestInvalid
from mt_core.rowset import PageForm
from mt_core.sessions.ports import ResultRows

PAGE_SIZE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows; `last` means that there are none and that none will follow."""

    rows: list[list[Any]]
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPage:
    """Some rows encoded in `body`; without one the rows are values only, which are in `rows`."""

    rows: list[list[Any]]
    body: bytes | memoryview | None
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Which rows a page has."""

    start: int
    count: int
    last: bool


class ResultPages:
    """Gives out pages in turn, of the rows that are there by then; safe from any thread.

    Rows that no token leads to any more are released.
    """

    def __init__(self, rows: ResultRows, *, page_size: int = PAGE_SIZE) -> None:
        self._rows, self._page_size = rows, page_size
        self._lock = threading.Lock()
        self._current = 0
        self._previous = _Span(start=0, count=0, last=False)
        self._ended_at: int | None = None

    def wait(self, token: int, timeout_s: float) -> bool:
        """Wait until page *token* has rows or is the last one; returns whether it is so. A page given before always is."""
        start = self._previous.start + self._previous.count
        if token != self._current or self._ended_at is not None or not self._rows.running:
            return True
        return self._rows.available(start, 1, timeout_s) > 0 or not self._rows.running

    def fetch(self, token: int, size: int | None = None) -> Page:
        """Return page *token*, with *size* rows at most if it is a new one.

        Raises RequestInvalid naming the tokens that can be fetched, or the error of a query whose rows end before.
        """
        with self._lock:
            span = self._span(token, size)
            return Page(rows=self._rows.page(span.start, span.count), last=span.last)

    def fetch_encoded(self, token: int, size: int | None, form: PageForm) -> EncodedPage:
        """Return page *token* like `fetch`, encoded where the rows can be."""
        with self._lock:
            span = self._span(token, size)
            body = self._rows.encoded(span.start, span.count, form)
            rows = self._rows.page(span.start, span.count) if body is None else []
            return EncodedPage(rows=rows, body=body, last=span.last)

    def _span(self, token: int, size: int | None) -> _Span:
        if self._ended_at is not None and token in (self._ended_at, self._ended_at + 1):
            return _Span(start=self._end, count=0, last=True)
        if token < 0 or token not in (self._current, self._current - 1):
            raise RequestInvalid(f"Expecting token to be {self._expected()}, but found {token}.")
        if token == self._current - 1:
            return self._previous
        span = self._next_span(size or self._page_size)
        if span.last:
            self._ended_at = token
            return span
        self._rows.release(span.start)
        self._previous = span
        self._current += 1
        return span

    def _next_span(self, size: int) -> _Span:
        running, start = self._rows.running, self._end
        count = self._rows.available(start, size, 0)
        if not count and not running:
            # Raises the error, if it was an error that ended the rows.
            self._rows.page(start, 1)
        return _Span(start=start, count=count, last=not count and not running)

    @property
    def _end(self) -> int:
        return self._previous.start + self._previous.count

    def _expected(self) -> str:
        return f"{self._current} or {self._current - 1}" if self._current else "0"
