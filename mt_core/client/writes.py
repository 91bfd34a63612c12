"""Recognizes responses to statements that change data."""

from __future__ import annotations

from mt_core.client.pages import ResultPage


def is_of_a_write(page: ResultPage) -> bool:
    """Return whether *page* is the result of a change of data, whose only column is the job id."""
    return not page.is_query and [column.name for column in page.columns] == ["job id"]
