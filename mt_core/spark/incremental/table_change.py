"""Table changes: the rows of the stored table that a run deletes and inserts, given their net change.

A net change has the columns of the table, in its types, and how often each row was added or removed. It is
exact: the table contains each removed row at least as often. A row that is missing means that something
computed other values than when the row was written. Then applying the change would leave the old row, so the
run raises CountsDiffer, and recomputes all rows.

Rows are deleted by their positions where the table permits it, and they were all found if they are as many as
were removed. That is checked by their number alone: a look-up identifies rows by the first column whose
values occur as often as wanted, and does not compare the others. Otherwise the rows of the table with removed
values are read, and the counts are compared where they are computed (`rows_after_change`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce

from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import sum as total

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import TOO_FEW, repeated, rows_after_change, rows_without
from mt_core.incremental.strategy import CountsDiffer
from mt_core.spark.driver.failures import SPARK_ERRORS, thrown_by
from mt_core.spark.iceberg.bounds import EVERYWHERE, bounds_of, condition_of
from mt_core.spark.iceberg.computed_rows import ComputedRows, together
from mt_core.spark.iceberg.find_rows import LookupKeys, TableVersion, all_rows, find_rows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.replace_rows import AddedRows, AllRows, Change, DeleteModes
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.row_delta import RowDelta
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.block_changes import Signed
from mt_core.spark.queries.lineage import Lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """Computes changes of a table. Its temporary views exist until `stack` closes.

    `at` is the snapshot that the previous run published, `name` its SQL name, and `columns` are those of the
    table. `modes` say how rows may be deleted in place; None if the table is rewritten, by a single task if
    the change is `small`. Inline plans belong to `lineage`.
    """

    session: SparkSession
    lineage: Lineage | None
    at: TableVersion
    name: str
    columns: tuple[str, ...]
    modes: DeleteModes | None
    small: bool
    stack: ExitStack

    def added(self, parts: Signed) -> AddedRows:
        """Return the change that inserts the rows of *parts*, none of which is subtracted.

        A job computes what is not computed yet while it writes the rows.
        """
        few = [rows for _, rows in parts.few]
        if parts.many:
            frames = [*(frame for _, frame in parts.many), *(rows.frame for rows in few)]
            return AddedRows(rows=reduce(DataFrame.unionAll, frames))
        return AddedRows(rows=few[0] if len(few) == 1 else together(self.session, few[0].schema, few))

    def by_value(self, net: ComputedRows, copies: str) -> Change:
        """Return the change that deletes and inserts the rows of a *net* change.

        *net* has the columns of the table and the column *copies*: how often a row was added, or removed if
        it is negative. Rows that are equal in SQL are one row. Raises CountsDiffer if removed rows are not in
        the table. If they are only counted when rows are written, Spark raises an error, which
        `counts_checked` translates.
        """
        stored, many = self.columns, quote(copies)
        goes = f"SELECT {', '.join(map(quote, stored))}, -{many} AS {many} FROM {{}} WHERE {many} < 0"
        gone = self.of(net, goes.format)
        if self.looks_up:
            wanted = LookupKeys(rows=gone, keys=stored, copies=copies)
            touched = find_rows(self.session, self.at, stored, wanted)
            if (found := touched.count()) != (removed := _sum(gone, copies)):
                raise CountsDiffer(f"{removed:,} rows were removed, of which the table has {found:,}")
            come = self.of(net, lambda relation: repeated(relation, stored, copies, 1, few=net.few))
            return RowDelta(gone=touched, come=come)

        def every(at: Mapping[str, str]) -> str:
            table, changed = at["table"], at["net"]
            removed = f"(SELECT * FROM {changed} WHERE {many} < 0)"
            kept = rows_without(table, stored, stored, removed)
            return f"{kept} UNION ALL ({rows_after_change(table, stored, changed, copies)})"

        whole = self.whole(every, {"net": net})
        if whole is not None:
            return AllRows(rows=whole)
        bounds = self.bounds(net, stored)
        rows = self.session.sql(rows_after_change(self.name, stored, self.view(net.frame), copies, bounds))
        return Replacement(keys=stored, values=gone, gone=self.view(gone.frame), rows=rows, bounds=bounds)

    def by_key(self, keys: ComputedRows, rows: ComputedRows | DataFrame) -> Change:
        """Return the change that deletes all rows with some *keys* and inserts *rows*.

        The different *keys* have some columns of the table, *rows* all of them, in its order and types.
        """
        names = tuple(keys.columns)

        def every(at: Mapping[str, str]) -> str:
            kept = rows_without(at["table"], self.columns, names, at["keys"])
            return f"{kept} UNION ALL SELECT * FROM {at['rows']}"

        if isinstance(rows, ComputedRows):
            whole = self.whole(every, {"keys": keys, "rows": rows})
            if whole is not None:
                return AllRows(rows=whole)
        return Replacement(keys=names, values=keys, gone=self.view(keys.frame), rows=rows)

    @property
    def looks_up(self) -> bool:
        """True if rows to delete are looked up and deleted by position."""
        return self.modes is not None and self.modes.looks_up_all

    def of(self, rows: ComputedRows, text: Callable[[str], str]) -> ComputedRows:
        """Return the result of a query over *rows*. *text* returns its SQL, given the rows' relation name."""
        local = PLANS.sql(self.session, self.lineage, lambda at: text(at["rows"]), {"rows": rows})
        return local or ComputedRows.of_frame(self.session.sql(text(self.view(rows.frame))))

    def whole(
        self, text: Callable[[Mapping[str, str]], str], given: Mapping[str, ComputedRows]
    ) -> ComputedRows | None:
        """Return the complete new content of a small table, or None if a Spark job must compute it.

        *text* returns the query, given the names of the relation `table` and of the relations *given*. Its
        columns are those of the table.
        """
        rewrites = self.modes is None and self.small
        rows = all_rows(self.session, self.at) if rewrites else None
        if rows is None:
            return None
        return PLANS.sql(self.session, self.lineage, text, {"table": rows, **given})

    def bounds(self, values: ComputedRows, columns: Sequence[str]) -> str:
        """Return a condition that all rows `q` with *values* satisfy."""
        return EVERYWHERE if self.modes is None else condition_of(bounds_of(values, columns))

    def view(self, frame: DataFrame) -> str:
        """Return the name of a temporary view of *frame*."""
        return self.stack.enter_context(temporary_view(frame))


@contextmanager
def counts_checked() -> Iterator[None]:
    """Raise CountsDiffer instead of the error of Spark that a removed row is not in the table."""
    try:
        yield
    except SPARK_ERRORS as error:
        if any(TOO_FEW in thrown.message for thrown in thrown_by(error)):
            raise CountsDiffer(TOO_FEW) from error
        raise


def _sum(rows: ComputedRows, column: str) -> int:
    """Return the sum of an integer column."""
    if rows.few:
        table = rows.select([column]).rows
        return 0 if table is None else compute.sum(table[column]).as_py() or 0
    row = rows.frame.agg(total(quote(column))).first()
    return 0 if row is None else row[0] or 0
