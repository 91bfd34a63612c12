"""An arrangement: which rows of a result a person looks at, and in which order."""

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
_COMPARED_AS_THEY_ARE = {
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """The rows that have `text` in any of their values, in any case, in the order of column number `by`,
    or as they came.

    NULL is less than all values, and NaN is more, as in Spark.
    """

    text: str = ""
    by: int | None = None
    descending: bool = False

    @property
    def changes_nothing(self) -> bool:
        return not self.text and self.by is None

    def positions(self, snapshot: Snapshot) -> Generator[int, None, Sequence[int]]:
        """Yield how many rows of *snapshot* were read, some at a time;
        return the positions of the rows, in order.
        """
        sought, kept = self.text.casefold(), array("Q")
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
                    kept.append(position)
                elif row[self.by] is None:
                    nulls.append(position)
                else:
                    keys.append((key_of(row[self.by]), position))
            yield begin + len(rows)
        keys.sort(key=itemgetter(0), reverse=self.descending)
        kept.extend(position for _, position in keys)
        return kept + nulls if self.descending else nulls + kept


def has_text(row: Row, sought: str) -> bool:
    """Return whether a value of *row* has *sought*, which is in lower case, as its part."""
    return any(text is not None and sought in text.casefold() for text in row)


def column_named(columns: Sequence[Column], name: str) -> int | None:
    """Return the position of the column that has *name* or that number, or else alone begins so;
    None without one.
    """
    wanted = name.casefold()
    names = [column.name.casefold() for column in columns]
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal():
        return int(wanted) - 1 if 0 < int(wanted) <= len(names) else None
    begun = [position for position, each in enumerate(names) if each.startswith(wanted)]
    return begun[0] if len(begun) == 1 else None


def _key(column: Column) -> Callable[[Any], Any]:
    match column.type.root:
        case root if root in _COMPARED_AS_THEY_ARE:
            return lambda value: value
        case "FLOAT" | "DOUBLE":
            return lambda value: ((number := float(value)) != number, number)
        case "DECIMAL":
            return lambda value: Decimal(str(value))
        case _:
            # Timestamps have all digits of their fraction there.
            kind = column.type.to_json()
            return lambda value: plain(value, kind)
