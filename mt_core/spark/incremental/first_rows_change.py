"""First rows change: the new rows of a table whose query ends with a LIMIT, given the change of all its rows.

A full table has as many rows as the LIMIT, and others may follow that are not known. A row that was removed
is not in the table if it is behind the last one, and makes no difference. Otherwise a row comes up that is
not known, and all rows have to be computed. A table that is not full has all rows of the query.

Rows that were added take their place among those of the table. If the last row within the LIMIT and the next
one are equal in the ORDER BY, the order does not determine which of them to keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import repeated, rows_after_change, rows_without, unused_name
from mt_core.incremental.stages.first_rows import Limit
from mt_core.incremental.strategy import LimitReached, Ties, TooManyRows
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.find_rows import all_rows
from mt_core.spark.iceberg.inline_plans import PLANS, Text
from mt_core.spark.iceberg.replace_rows import AllRows
from mt_core.spark.incremental.table_change import TableChange


@dataclass(frozen=True, kw_only=True)
class FirstRowsChange:
    """The change of a *table* that has the first rows of a query with a *limit*, by the *net* change of all.

    *net* has the columns of the table and the column *copies*, as in `TableChange.by_value`. *columns* are
    those of the table in the order of the query.
    """

    table: TableChange
    limit: Limit
    columns: tuple[str, ...]
    net: ComputedRows
    copies: str

    def change(self) -> AllRows | None:
        """Return the new rows of the table, or None if they are the old ones.

        Raises LimitReached or Ties if the first rows do not follow from the change.
        """
        removed = self.table.of(self.net, self._first_removed)
        is_full = not removed.count() or self._is_full()
        new = self._query(self._candidates if is_full else self._all_candidates)
        if not new.few:
            raise TooManyRows("the LIMIT has more rows than the driver holds")
        facts = new.select([self._place, self._rank, self._came]).rows
        assert facts is not None
        places = facts.to_pylist()
        limit, total = self.limit.rows, self.limit.total
        if not total and any(each[self._rank] < each[self._place] == limit + 1 for each in places):
            raise Ties("rows on both sides of the LIMIT are equal in the ORDER BY")
        if is_full and not any(each[self._came] and each[self._place] <= limit for each in places):
            return None
        text = f"SELECT {self._fields} FROM {{}} WHERE {quote(self._place)} <= {limit}"
        return AllRows(rows=self.table.of(new, text.format))

    # ------------------------------------------------------------------------------------------- removed rows

    def _is_full(self) -> bool:
        """Return whether the table has as many rows as the LIMIT, and no row of it was removed.

        Raises LimitReached if it is full, but a row in it may have been removed.
        """
        facts = self._query(self._reached).rows
        assert facts is not None
        (row,) = facts.to_pylist()
        is_full = bool(row["present"] >= self.limit.rows)
        if is_full and row["reached"]:
            raise LimitReached("a row was removed that may be within the LIMIT")
        return is_full

    def _first_removed(self, net: str) -> str:
        """Return the query for the first row that was removed, in the order of the query."""
        gone = f"SELECT {self._fields} FROM {net} WHERE {quote(self.copies)} < 0"
        return f"{gone} ORDER BY {self._order} LIMIT 1"

    def _reached(self, at: Mapping[str, str]) -> str:
        """Return the query for how many rows the table has, and how many removed rows are not behind them."""
        own, rank, last = (unused_name(name, self.table.columns) for name in ("_own", "_rank", "_last"))
        rows = (
            f"SELECT {self._fields}, true AS {own} FROM {at['table']} UNION ALL "
            f"SELECT {self._fields}, false FROM ({self._first_removed(at['net'])})"
        )
        ranked = f"SELECT {own}, rank() OVER (ORDER BY {self._order}) AS {rank} FROM ({rows})"
        lasts = f"SELECT *, max(IF({own}, {rank}, 0)) OVER () AS {last} FROM ({ranked})"
        return (
            f"SELECT count_if({own}) AS present, count_if(NOT {own} AND {rank} <= {last}) AS reached "
            f"FROM ({lasts})"
        )

    # --------------------------------------------------------------------------------------------- candidates

    def _candidates(self, at: Mapping[str, str]) -> str:
        """Return the query for the first rows of the table and of added rows, and one row more."""
        came = repeated(at["net"], self.table.columns, self.copies, 1, few=self.net.few)
        return self._placed(
            f"SELECT {self._fields}, false AS {self._came} FROM {at['table']} "
            f"UNION ALL SELECT {self._fields}, true FROM {came}"
        )

    def _all_candidates(self, at: Mapping[str, str]) -> str:
        """Return the same query for a table that has all rows of the query."""
        columns = self.table.columns
        gone = f"(SELECT * FROM {at['net']} WHERE {quote(self.copies)} < 0)"
        return self._placed(
            f"SELECT *, true AS {self._came} FROM ({rows_without(at['table'], columns, columns, gone)} "
            f"UNION ALL ({rows_after_change(at['table'], columns, at['net'], self.copies)}))"
        )

    def _placed(self, rows: str) -> str:
        first = f"SELECT * FROM ({rows}) ORDER BY {self._order} LIMIT {self.limit.rows + 1}"
        return (
            f"SELECT *, row_number() OVER (ORDER BY {self._order}) AS {self._place}, "
            f"rank() OVER (ORDER BY {self._order}) AS {self._rank} FROM ({first})"
        )

    # --------------------------------------------------------------------------------------------------- both

    def _query(self, text: Text) -> ComputedRows:
        """Return the result of a query over the relations `table` and `net`."""
        rows = self._table_rows
        given = {"net": self.net} if rows is None else {"net": self.net, "table": rows}
        few = None if rows is None else PLANS.sql(self.table.session, self.table.lineage, text, given)
        if few is not None:
            return few
        views = {name: self.table.view(each.frame) for name, each in given.items()}
        return collect_or_checkpoint(self.table.session.sql(text({"table": self.table.name, **views})))

    @cached_property
    def _table_rows(self) -> ComputedRows | None:
        """All rows of the table, or None if a job should read them."""
        session = self.table.session
        given = all_rows(session, self.table.at)
        if given is None:
            return None
        return PLANS.run(session, None, "all rows", lambda at: session.table(at["rows"]), {"rows": given})

    @property
    def _fields(self) -> str:
        return ", ".join(map(quote, self.table.columns))

    @property
    def _order(self) -> str:
        order = ((quote(self.columns[position]), direction) for position, direction in self.limit.order)
        return ", ".join(f"{name} {direction}" for name, direction in order)

    @property
    def _place(self) -> str:
        return unused_name("_place", self.table.columns)

    @property
    def _rank(self) -> str:
        return unused_name("_rank", self.table.columns)

    @property
    def _came(self) -> str:
        return unused_name("_came", self.table.columns)
