"""The result of DESCRIBE for people, without those columns of Flink that have no values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from mt_core.client.pages import ResultPage

_ALWAYS, _IF_ANY = ["name", "type", "null"], ["key", "extras", "watermark"]


def without_empty_columns(pages: Iterable[ResultPage]) -> Iterator[ResultPage]:
    """Yield *pages*, without some empty columns if they are the result of DESCRIBE or SHOW COLUMNS.

    `key`, `extras` and `watermark` are dropped if they are NULL in all rows.
    """
    iterator = iter(pages)
    first = next(iterator)
    names = [column.name for column in first.columns]
    if first.is_query or names[:6] != [*_ALWAYS, *_IF_ANY]:
        yield from chain((first,), iterator)
        return
    every = [first, *iterator]
    positions = [
        position
        for position, name in enumerate(names)
        if name not in _IF_ANY or any(row[position] is not None for page in every for row in page.rows)
    ]

    for page in every:
        columns = tuple(page.columns[position] for position in positions)
        yield replace(
            page, columns=columns, rows=[[row[position] for position in positions] for row in page.rows]
        )
