"""What the gateway answers to a statement that changes data."""

from __future__ import annotations

from mt_core.client.pages import ResultPage


def is_of_a_write(page: ResultPage) -> bool:
    """Return whether the statement of *page* changes data: its only row is the id of its job."""
    return not page.is_query and [column.name for column in page.columns] == ["job id"]
