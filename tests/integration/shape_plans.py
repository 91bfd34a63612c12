"""Records the analysed plans of `maintained_queries`: `python -m tests.integration.shape_plans`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from benchmarks.bare_driver import bare_driver
from mt_core.incremental.delta import numbered
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.queries.lineage import LineageReader
from mt_core.spark.queries.query_shapes import pieces_of, plan_of
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.tables.engine import Query
from tests.support.maintained_queries import QUERIES, SOURCES
from tests.support.recorded_plans import Plan, trimmed, trimmed_trees, write_plans


def plans_of(session: SparkSession, sql: str) -> tuple[tuple[Plan, list[Plan]], list[Plan]]:
    """Return the plan of a query and its subqueries, and its trees in stages."""
    with active_session(session):
        text = numbered(pieces_of(LineageReader(session).read(Query(text=sql))))
        return trimmed(*plan_of(session.sql(text))), trimmed_trees(StagedQuery.of(session, text).trees())


def main() -> int:
    with bare_driver() as (driver, _):
        session = driver.new_session()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.sql("CREATE NAMESPACE lake.shapes")
        session.sql("USE lake.shapes")
        for name, columns in SOURCES.items():
            session.sql(f"CREATE TABLE {name} ({columns}) USING iceberg")
        made = {query.name: plans_of(session, query.sql) for query in QUERIES}
    write_plans(
        {name: plan for name, (plan, _) in made.items()}, {name: trees for name, (_, trees) in made.items()}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
