"""Query shapes: analysed plans in the normal form that the rules of `mt_core.incremental` expect."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import sql_name
from mt_core.incremental.delta import Piece, Reading
from mt_core.incremental.merging import check_types
from mt_core.incremental.shape import QueryShape, read_shape
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.jvm_objects import java_dataset, own_class, scala_items
from mt_core.spark.iceberg.computed_rows import computed
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.lineage import Reading as SourceReading
from mt_core.spark.queries.plan_json import json_of


def plan_of(frame: DataFrame) -> tuple[str, tuple[str, ...]]:
    """Return the JSON of a query's normal form and of each subquery that remains in its expressions."""
    session, plan = frame.sparkSession, normal_form(frame)
    return json_of(session, plan), tuple(json_of(session, each) for each in scala_items(plan.subqueriesAll()))


def normal_form(frame: DataFrame) -> Any:
    """Return the plan of a query without WITH, correlated subqueries and operations on sets."""
    rules = own_class(frame.sparkSession, "freshtable.queries.NormalForm")
    return rules.of(frame._jdf.queryExecution().analyzed())


def values_of(session: SparkSession, text: str) -> DataFrame:
    """Return one row with the values of the scalar subqueries that remain in a query's normal form.

    The subqueries are evaluated once, by this call.
    """
    with ExitStack() as stack:
        views = [
            stack.enter_context(temporary_view(DataFrame(java_dataset(session, plan), session)))
            for plan in scala_items(normal_form(session.sql(text)).subqueriesAll())
        ]
        items = ", ".join(f"(SELECT * FROM {view}) AS _{number}" for number, view in enumerate(views))
        return computed(session.sql(f"SELECT {items}"))


def shape_of_query(session: SparkSession, text: str) -> tuple[QueryShape, tuple[Column, ...]] | str:
    """Return the shape of a query and its columns, or the reason why it has no shape.

    *text* must have numbered readings (`mt_core.incremental.delta.numbered`).
    """
    frame = session.sql(text)
    plan, subqueries = plan_of(frame)
    if "collate" in plan.lower():
        return "a collation makes different strings equal"
    columns = columns_of(frame._jdf.schema())
    shape = read_shape(json.loads(plan), [json.loads(each) for each in subqueries])
    if not isinstance(shape.merge, str):
        # The JSON of a plan does not distinguish TRY_SUM from SUM.
        null_after_overflow = (
            "try_sum" in text.lower() or session.conf.get("spark.sql.ansi.enabled") != "true"
        )
        types = {column.name: column.type for column in columns}
        shape = replace(shape, merge=check_types(shape.merge, types, null_after_overflow=null_after_overflow))
    return shape, columns


def pieces_of(lineage: Lineage) -> tuple[Piece, ...]:
    """Return the text of a query, split where it reads a source.

    A source with an explicit version (time travel) never changes, so it remains part of the text.
    """
    return tuple(map(_piece, lineage.pieces))


def _piece(piece: str | SourceReading) -> Piece:
    if isinstance(piece, str):
        return piece
    source = piece.source
    name = sql_name(source.parts)
    if source.travel is not None:
        return name
    return Reading(name=name, source=source.name, alias=None if piece.aliased else source.parts[-1])
