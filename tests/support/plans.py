"""Compiled plans for tests in the form of FLIP-292: a deduplication below an aggregate, and a join."""

from __future__ import annotations

from datetime import timedelta

from mt_core.plans.compiled import CompiledPlan, PlanMode, fingerprint_of, nodes_of
from mt_core.plans.operators import ALL, Operator, OperatorState

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FIRST_EXAMPLE = """SELECT product_id,
       COUNT(DISTINCT user_id) AS buy_uv,
       COUNT(order_id) AS order_cnt,
       SUM(num) AS quantity_cnt
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime ASC) AS rn
    FROM Orders
) tmp
WHERE rn = 1
GROUP BY product_id"""
"""The query of the first example of FLIP-292."""
_COLUMNS = (("id", "BIGINT"), ("a `b`", "STRING"))


def scan(table: str = "lake.sales.orders") -> Operator:
    return Operator(
        type="stream-exec-table-source-scan_1",
        description=f"TableSourceScan(table=[{table}])",
        output=_COLUMNS,
    )


def deduplicate(source: Operator, ttl: timedelta = HOUR) -> Operator:
    return Operator(
        type="stream-exec-deduplicate_1",
        description="Deduplicate(keep=[FirstRow], key=[id#12L], order=[PROCTIME])",
        inputs=(source,),
        states=(OperatorState(index=0, name="deduplicateState", ttl=ttl),),
        output=_COLUMNS,
    )


def aggregate(source: Operator, ttl: timedelta = DAY) -> Operator:
    return Operator(
        type="stream-exec-group-aggregate_1",
        description="GroupAggregate(groupBy=[a `b`], select=[a `b`, COUNT(id) AS n])",
        inputs=(source,),
        changes=ALL,
        states=(OperatorState(index=0, name="groupAggregateState", ttl=ttl),),
        output=(("a `b`", "STRING"), ("n", "BIGINT")),
    )


def join(left: Operator, right: Operator, ttls: tuple[timedelta, timedelta] = (7 * DAY, DAY)) -> Operator:
    names = ("leftState", "rightState")
    return Operator(
        type="stream-exec-join_1",
        description="Join(joinType=[InnerJoin], where=[id = id0])",
        inputs=(left, right),
        states=tuple(
            OperatorState(index=index, name=name, ttl=ttl)
            for index, (name, ttl) in enumerate(zip(names, ttls, strict=True))
        ),
        output=(*_COLUMNS, *_COLUMNS),
    )


def compiled(*operators: Operator, text: str = "INSERT INTO sink SELECT * FROM orders") -> CompiledPlan:
    """Return the plan of *operators*, or of a deduplication below an aggregate."""
    nodes = nodes_of(operators or (aggregate(deduplicate(scan())),))
    return CompiledPlan(
        spark_version="4.1.0",
        mode=PlanMode.STREAMING,
        statements=(text,),
        catalog="lake",
        namespace=("sales",),
        temporary=("CREATE TEMPORARY VIEW v AS SELECT 1",),
        nodes=nodes,
        fingerprint=fingerprint_of(nodes),
    )
