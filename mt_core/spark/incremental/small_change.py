"""Small changes: the changed rows of a query's only reading, processed without a Spark job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from mt_core.incremental.delta import Images
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.readings.row_images import ImageViews
from mt_core.tables.engine import SourceChanges

Query = Callable[[Images], str]
"""Returns the text of a query, given the images of the changed rows."""
_ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallChange:
    """The changed rows of a query's only reading.

    `images` returns row images, given the relation name of the rows.
    """

    session: SparkSession
    lineage: Lineage
    rows: ComputedRows
    images: Callable[[str], Images]

    @classmethod
    def of(
        cls,
        session: SparkSession,
        lineage: Lineage,
        changes: SourceChanges,
        images: Mapping[int, ImageViews],
    ) -> SmallChange | None:
        """Return the change, or None if the query has other readings or the rows are not local.

        *images* contains the images of changed readings, by number.
        """
        views = images.get(0)
        if len(changes.readings) != 1 or len(changes.changes) != 1 or views is None or not views.few:
            return None
        return cls(session=session, lineage=lineage, rows=views.net, images=views.of)

    def compute(self, text: Query) -> ComputedRows | None:
        """Return the rows of the query *text*, or None if a Spark job must compute them."""
        return PLANS.sql(
            self.session, self.lineage, lambda at: text(self.images(at[_ROWS])), {_ROWS: self.rows}
        )
