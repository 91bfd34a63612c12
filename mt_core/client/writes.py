"""Recognises responses to statements that change data."""

from __future__ import annotations

from mt_core.client.pages import ResultPage


def is_of_a_write(page: ResultPage) -> bool:
    """Return whether *page* is of a statement that changes data: its only column is the job id."""
    return not page.is_query and [column.name for column in page.columns] == ["job id"]
