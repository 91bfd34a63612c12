"""Filtering and sorting the rows of a result in the viewer."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter
from typing import Any

from mt_core.base.plain_text import plain, plain_rows
from mt_core.base.rowset import Column
from mt_core.terminal.output.texts import Row
from mt_core.terminal.viewer.live_result import Snapshot

READ_AT_ONCE = 1_000
_COMPARABLE_ROOTS = {
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """A filter and an order of rows.

    A row matches if any of its values contains `text`, ignoring case. Rows are sorted by column number `by`,
    or are in order of arrival if it is None. As in Spark, NULL sorts before all values and NaN after them.
    """

    text: str = ""
    by: int | None = None
    descending: bool = False

    @property
    def changes_nothing(self) -> bool:
        return not self.text and self.by is None

    def positions(self, snapshot: Snapshot) -> Generator[int, None, Sequence[int]]:
        """Return the positions of the matching rows of *snapshot*, in order.

        After each step, yield the number of rows read so far.
        """
        sought, matching = self.text.casefold(), array("Q")
        keys, nulls = list[tuple[Any, int]](), array("Q")
        key_of = None if self.by is None else _key(snapshot.columns[self.by])
        for begin in range(0, snapshot.count, READ_AT_ONCE):
            rows = snapshot.rows(begin, min(begin + READ_AT_ONCE, snapshot.count))
            texts: Sequence[Row] = plain_rows(snapshot.columns, rows) if sought else ()
            for number, row in enumerate(rows):
                position = begin + number
                if sought and not has_text(texts[number], sought):
                    continue
                if key_of is None or self.by is None:
                    matching.append(position)
                elif row[self.by] is None:
                    nulls.append(position)
                else:
                    keys.append((key_of(row[self.by]), position))
            yield begin + len(rows)
        keys.sort(key=itemgetter(0), reverse=self.descending)
        matching.extend(position for _, position in keys)
        return matching + nulls if self.descending else nulls + matching


def has_text(row: Row, sought: str) -> bool:
    """Return whether a value of *row* contains *sought*, which must be in lower case."""
    return any(text is not None and sought in text.casefold() for text in row)


def column_named(columns: Sequence[Column], name: str) -> int | None:
    """Return the position of the column with *name* or with that number, or None.

    *name* may also be the beginning of a name, if only one column matches.
    """
    lower_name = name.casefold()
    names = [column.name.casefold() for column in columns]
    if lower_name in names:
        return names.index(lower_name)
    if lower_name.isdecimal():
        return int(lower_name) - 1 if 0 < int(lower_name) <= len(names) else None
    begun = [position for position, each in enumerate(names) if each.startswith(lower_name)]
    return begun[0] if len(begun) == 1 else None


def _key(column: Column) -> Callable[[Any], Any]:
    match column.type.root:
        case root if root in _COMPARABLE_ROOTS:
            return lambda value: value
        case "FLOAT" | "DOUBLE":
            return lambda value: ((number := float(value)) != number, number)
        case "DECIMAL":
            return lambda value: Decimal(str(value))
        case _:
            # Plain texts of timestamps have all digits of the fraction, so they sort correctly.
            kind = column.type.to_json()
            return lambda value: plain(value, kind)
