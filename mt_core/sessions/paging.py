"""The pages of a result, fetched by token: the current or the previous one, so that a lost answer can be repeated."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from mt_core.errors import RequestInvalid
from mt_core.sessions.ports import ResultRows

PAGE_SIZE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows; `last` means that there are none and that none will follow."""

    rows: list[list[Any]]
    last: bool


class Cursor:
    """Gives out pages in turn; safe from any thread."""

    def __init__(self, rows: ResultRows, *, page_size: int = PAGE_SIZE) -> None:
        self._rows, self._page_size = rows, page_size
        self._lock = threading.Lock()
        self._current = 0
        self._ended_at: int | None = None

    def fetch(self, token: int) -> Page:
        """Return page *token*; raises RequestInvalid naming the tokens that can be fetched."""
        with self._lock:
            if self._ended_at is not None and token in (self._ended_at, self._ended_at + 1):
                return Page(rows=[], last=True)
            if token < 0 or token not in (self._current, self._current - 1):
                raise RequestInvalid(f"Expecting token to be {self._expected()}, but found {token}.")
            rows = self._rows.page(token * self._page_size, self._page_size)
            if not rows:
                self._ended_at = token
            elif token == self._current:
                self._current += 1
            return Page(rows=rows, last=not rows)

    def _expected(self) -> str:
        return f"{self._current} or {self._current - 1}" if self._current else "0"
