"""Records the analysed plans of the queries of TPC-H and TPC-DS: `python -m tests.integration.tpc_plans`.

With `--check` it writes nothing and fails if Spark makes other plans than the recorded ones.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.bare_driver import bare_driver
from mt_core.incremental.delta import numbered, readings
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.queries.lineage import LineageReader
from mt_core.spark.queries.query_shapes import pieces_of, plan_of
from mt_core.spark.queries.staged_query import StagedQuery
from mt_core.tables.engine import Query
from tests.integration.tpc import TpcSuite, tpc_suite
from tests.support import tpc_strategies
from tests.support.recorded_plans import trimmed, trimmed_trees
from tests.support.tpc_plans import SUITES, RecordedQuery, recorded_queries, write_queries


def plans_of(session: SparkSession, suite: TpcSuite) -> dict[str, RecordedQuery]:
    """Return what Spark makes of the queries over empty tables, which are created in the current namespace
    of *session*.
    """
    for table, file in suite.tables.items():
        session.sql(f"CREATE TABLE {table} USING iceberg AS SELECT * FROM parquet.`{file}` LIMIT 0")
    with active_session(session):
        return {name: _recorded(session, text) for name, text in suite.queries.items()}


def _recorded(session: SparkSession, text: str) -> RecordedQuery:
    lineage = LineageReader(session).read(Query(text=text))
    pieces = pieces_of(lineage)
    frame = session.sql(numbered(pieces))
    plan, subqueries = trimmed(*plan_of(frame))
    return RecordedQuery(
        columns=tuple(
            Column(name=column.name, type=column.type) for column in columns_of(frame._jdf.schema())
        ),
        readings=tuple(reading.source.rpartition(".")[2] for reading in readings(pieces)),
        plan=plan,
        subqueries=subqueries,
        trees=trimmed_trees(StagedQuery.of(session, numbered(pieces)).trees()),
        obstacle=lineage.unstable or lineage.unpinnable,
    )


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder, bare_driver() as (driver, _):
        queries = {}
        for suite in SUITES:
            session = driver.new_session()
            session.conf.set("spark.sql.session.timeZone", "UTC")
            session.sql(f"CREATE NAMESPACE lake.{suite}")
            session.sql(f"USE lake.{suite}")
            queries[suite] = plans_of(session, tpc_suite(suite, Path(folder)))
    if "--check" in arguments:
        others = [
            f"{suite} {name}"
            for suite, made in queries.items()
            for name, query in recorded_queries(suite).items()
            if made.get(name) != query
        ]
        sys.stdout.write(f"Spark makes other plans of: {', '.join(others) or 'none'}\n")
        return 1 if others else 0
    for suite, made in queries.items():
        write_queries(suite, made)
    tpc_strategies.write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
