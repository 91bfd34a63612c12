"""Changed groups: the groups of a query that a change of its sources touches, with the change of their aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from pyarrow import compute
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructField, StructType

from mt_core.identifiers import quote
from mt_core.maintenance.delta import DeltaTexts, Images, readings
from mt_core.maintenance.strategy import check_keys
from mt_core.spark.maintenance.appended_rows import AppendedRows
from mt_core.spark.maintenance.computed_rows import Computed, kept
from mt_core.spark.maintenance.contributions import contributions, subtracted
from mt_core.spark.maintenance.row_images import ImageViews


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGroups:
    """Groups with the change of their aggregates: `every` one, `certain` ones, which have that and their columns, and the others.

    `doubtful` is None if the aggregates of no group are in doubt.
    """

    every: Computed
    certain: DataFrame
    doubtful: Computed | None = None

    @classmethod
    def of(
        cls,
        appended: AppendedRows,
        texts: DeltaTexts,
        images: Mapping[str, ImageViews],
    ) -> ChangedGroups:
        """Return the groups of the query; raises TooManyKeys if more are in doubt than are computed."""
        strategy = appended.maintenance.strategy
        names = [column.name for column in appended.maintenance.changes.columns]
        if not images:
            delta = _added(appended, texts, names)
            return cls(every=delta, certain=delta.frame)
        doubt = f"_doubt_{uuid4().hex}"
        here = _subtracted(appended, texts, images, names, doubt)
        delta = kept(appended.session.sql(texts.subtracted(names, strategy.merge, doubt))) if here is None else here
        if delta.rows is None:
            doubtful = kept(delta.frame.where(doubt))
            certain = delta.frame.where(f"NOT {doubt}").select(*map(quote, names))
        else:
            doubtful = replace(delta, rows=delta.rows.filter(delta.rows[doubt]))
            certain = replace(delta, rows=delta.rows.filter(compute.invert(delta.rows[doubt]))).select(names).frame
            if not doubtful.count():
                return cls(every=delta, certain=certain)
        check_keys(strategy, doubtful.count())
        return cls(every=delta, certain=certain, doubtful=doubtful)


def added_over(texts: DeltaTexts, images: Images) -> str:
    """Return what rows of *images* add to the result, whichever source they are of."""
    return replace(texts, images={reading.source: images for reading in readings(texts.pieces)}).added()


def _added(appended: AppendedRows, texts: DeltaTexts, names: Sequence[str]) -> Computed:
    session, columns = appended.session, appended.maintenance.changes.columns
    few = appended.few(columns, lambda each: session.sql(added_over(texts, each)).toDF(*names), grouped=True)
    return kept(session.sql(texts.added()).toDF(*names) if few is None else few)


def _subtracted(
    appended: AppendedRows,
    texts: DeltaTexts,
    images: Mapping[str, ImageViews],
    names: Sequence[str],
    doubt: str,
) -> Computed | None:
    """Return what `DeltaTexts.subtracted` does if it takes no job: from rows at hand of the only relation that the query reads."""
    session, changes = appended.session, appended.maintenance.changes
    if len(changes.readings) != 1:
        return None
    (views,) = images.values()
    query, merge = (lambda each: session.sql(added_over(texts, each))), appended.maintenance.strategy.merge
    found = contributions(session, appended.lineage, changes.columns, query, views, merge)
    if found is None:
        return None
    counted = texts.shape.row_count is not None
    rows = subtracted(found.removed, found.added, merge, counted=counted, doubt=doubt)
    if rows is None:
        return None
    fields = [StructField(name, field.dataType) for name, field in zip(names, found.schema.fields, strict=True)]
    schema = StructType([*fields, StructField(doubt, BooleanType(), False)])
    return Computed(session=session, schema=schema, rows=rows.rename_columns(schema.names))
