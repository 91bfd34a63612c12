"""Changed groups: the groups of a query that a change of its sources touches,
with the change of their aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import DeltaTexts, apart_from, over
from mt_core.incremental.strategy import check_keys
from mt_core.spark.iceberg.computed_rows import Computed, kept
from mt_core.spark.incremental.small_change import SmallChange
from mt_core.tables.engine import Maintenance


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGroups:
    """Groups with the change of their aggregates, in `columns`:
    `every` one, and those whose aggregates are in doubt.

    `doubt` is the column of `every` that says so; None, as is `doubtful`, where none can be.
    """

    columns: Sequence[str]
    every: Computed
    doubt: str | None = None
    doubtful: Computed | None = None

    @classmethod
    def of(
        cls, session: SparkSession, texts: DeltaTexts, maintenance: Maintenance, small: SmallChange | None
    ) -> ChangedGroups:
        """Return the groups of the query; raises TooManyKeys if more are in doubt than are computed."""
        strategy, names = maintenance.strategy, [column.name for column in maintenance.changes.columns]
        if not texts.images:
            given = ", ".join(map(quote, names))
            few = small and small.compute(
                lambda rows: f"SELECT * FROM ({over(texts, rows).added()}\n) AS d({given})"
            )
            return cls(columns=names, every=few or kept(session.sql(texts.added()).toDF(*names)))
        doubt = apart_from("_doubt", names)
        few = small and small.compute(lambda rows: over(texts, rows).subtracted(names, strategy.merge, doubt))
        every = few or kept(session.sql(texts.subtracted(names, strategy.merge, doubt)))
        if every.rows is None:
            doubtful = kept(every.frame.where(quote(doubt)))
        else:
            doubtful = every.others(every.rows.filter(every.rows[doubt]))
            if not doubtful.count():
                return cls(columns=names, every=every, doubt=doubt)
        check_keys(strategy, doubtful.count())
        return cls(columns=names, every=every, doubt=doubt, doubtful=doubtful)

    def certain(self, every: str) -> str:
        """Return those that are not in doubt, in brackets, of *every*, a relation in SQL
        with the rows of `every`.
        """
        given = ", ".join(map(quote, self.columns))
        where = "" if self.doubt is None else f" WHERE NOT {quote(self.doubt)}"
        return f"(SELECT {given} FROM {every}{where})"
