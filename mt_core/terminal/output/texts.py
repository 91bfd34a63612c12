"""Values as text, in the format of Flink's client."""

from __future__ import annotations

from collections.abc import Sequence

from mt_core.base.plain_text import plain_rows
from mt_core.base.rowset import Column
from mt_core.client.pages import ResultPage

NULL_TEXT = "<NULL>"
NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}


Row = Sequence[str | None]


def texts_of(page: ResultPage) -> list[list[str | None]]:
    """Return the rows of *page* as strings, with None for NULL."""
    return plain_rows(page.columns, page.rows)


def shown(text: str | None) -> str:
    """Return *text*, or `<NULL>` for None."""
    return NULL_TEXT if text is None else text


def numeric(columns: Sequence[Column]) -> list[bool]:
    """Return for each column whether it is numeric and therefore right-aligned."""
    return [column.type.root in NUMBERS for column in columns]
