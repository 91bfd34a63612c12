"""Changed groups: the groups of an aggregate query whose results change when its sources change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import DeltaTexts, over, unused_name
from mt_core.incremental.strategy import check_keys
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.incremental.small_change import SmallChange
from mt_core.tables.engine import Maintenance


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGroups:
    """The groups that a source change affects, with the changes of their aggregates, in `columns`.

    The aggregates of some groups cannot be updated from the changed rows and must be recomputed from the
    sources. `every` has all changed groups. Its boolean column `doubt` marks the groups to recompute. It is
    None if rows were only added. `doubtful` contains only the groups to recompute, or is None if there are
    none.
    """

    columns: Sequence[str]
    every: ComputedRows
    doubt: str | None = None
    doubtful: ComputedRows | None = None

    @classmethod
    def of(
        cls, session: SparkSession, texts: DeltaTexts, maintenance: Maintenance, small: SmallChange | None
    ) -> ChangedGroups:
        """Return the changed groups. Raises TooManyKeys if too many of them must be recomputed."""
        strategy, names = maintenance.strategy, [column.name for column in maintenance.changes.columns]
        if not texts.removes:
            given = ", ".join(map(quote, names))
            few = small and small.compute(
                lambda rows: f"SELECT * FROM ({over(texts, rows).added()}\n) AS d({given})"
            )
            return cls(
                columns=names, every=few or collect_or_checkpoint(session.sql(texts.added()).toDF(*names))
            )
        doubt = unused_name("_doubt", names)
        few = small and small.compute(lambda rows: over(texts, rows).subtracted(names, strategy.merge, doubt))
        every = few or collect_or_checkpoint(session.sql(texts.subtracted(names, strategy.merge, doubt)))
        if every.rows is None:
            doubtful = collect_or_checkpoint(every.frame.where(quote(doubt)))
        else:
            doubtful = every.with_table(every.rows.filter(every.rows[doubt]))
            if not doubtful.count():
                return cls(columns=names, every=every, doubt=doubt)
        check_keys(strategy, doubtful.count())
        return cls(columns=names, every=every, doubt=doubt, doubtful=doubtful)

    def certain(self, every: str) -> str:
        """Return a parenthesized subquery for the groups that need not be recomputed.

        *every* is an SQL relation with the rows of `every`.
        """
        given = ", ".join(map(quote, self.columns))
        where = "" if self.doubt is None else f" WHERE NOT {quote(self.doubt)}"
        return f"(SELECT {given} FROM {every}{where})"
