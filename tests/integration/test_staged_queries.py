"""A query in stages returns what plain Spark returns: its lowest aggregates as partial sums, which can be
added and subtracted, and the rest of the query over them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame

from mt_core.incremental.stages.compiler import compile_stages
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.iceberg.computed_rows import collect_or_checkpoint
from mt_core.spark.queries.staged_query import StagedQuery
from tests.depth import DEPTH
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_queries import check_rest, columns_of, has_sums, places_of, rows_of, staged

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

T = (
    "id BIGINT, k INT, s STRING, x DOUBLE, a INT, b BIGINT, y TINYINT, d DECIMAL(12, 2), w DECIMAL(38, 4), "
    "p STRUCT<q: INT, r: STRING>, l ARRAY<INT>, at DATE, ok BOOLEAN"
)
C = "k INT, name STRING, cap INT"
ROWS = """
SELECT id, nullif(CAST(id % 5 AS INT), 4), nullif(concat('s', id % 4), 's3'),
    element_at(array(0.0D, -0.0D, double('NaN'), NULL, 1.5D), CAST(id % 5 + 1 AS INT)),
    nullif(CAST(id * 7 % 11 - 5 AS INT), 0), id * 1000000007 % 97 - 40, CAST(id % 3 - 1 AS TINYINT),
    nullif(CAST(id * 3.25 % 17 - 5 AS DECIMAL(12, 2)), 1.5), CAST(id * 0.1234 AS DECIMAL(38, 4)),
    if(id % 6 = 0, NULL, named_struct('q', CAST(id % 2 AS INT), 'r', nullif(string(id % 3), '0'))),
    if(id % 7 = 0, NULL, array(CAST(id % 2 AS INT), NULL)), DATE '2026-03-01' + CAST(id % 3 AS INT),
    nullif(id % 3, 2) = 1
FROM range({}, {})
"""
SHAPES = {
    "sums, counts and averages by a key": (
        "SELECT k, sum(a), sum(d) AS sd, avg(a), avg(d) AS ad, count(*), count(a) AS na, sum(y), avg(b), "
        "sum(w) FROM t GROUP BY k"
    ),
    "values of an aggregate before its keys, and twice": (
        "SELECT sum(a) AS z, k, sum(a), k AS `sum(a)`, s FROM t GROUP BY s, k"
    ),
    "FILTER": (
        "SELECT s, sum(a) FILTER (WHERE ok) AS sa, count(*) FILTER (WHERE a > 0) AS n, avg(d) FILTER "
        "(WHERE k = 1) AS m, sum(a) AS b FROM t GROUP BY s"
    ),
    "keys that are NaN, -0.0 and NULL": "SELECT x, count(*) AS n, sum(d) FROM t GROUP BY x",
    "nested keys": "SELECT p, l, count(*) AS n, sum(b) FROM t GROUP BY p, l",
    "computed keys": (
        "SELECT a % 3 + 1 AS r, upper(s) AS u, NOT (a > k) AS c, sum(a + k) / count(*) AS q FROM t "
        "GROUP BY a % 3, upper(s), NOT (a > k)"
    ),
    "a literal as the key": "SELECT 'all' AS name, sum(a) FROM t WHERE a > 3 GROUP BY 'all'",
    "no key": "SELECT sum(a), count(*), avg(d), count(k, a) AS both FROM t",
    "no key and no row": "SELECT sum(a) AS s, count(*) AS n, avg(d) AS m FROM t WHERE id < -1",
    "DISTINCT functions without a key": (
        "SELECT count(DISTINCT x) AS n, count(*) - count(DISTINCT s) FILTER (WHERE ok) AS m, sum(a), avg(b), "
        "sum(DISTINCT d), avg(DISTINCT a + k) AS z, min(DISTINCT at) FROM t"
    ),
    "DISTINCT functions without a key and a row": (
        "SELECT count(DISTINCT k) AS n, sum(DISTINCT d) AS s, sum(a), count(*) FROM t WHERE id < -1"
    ),
    "DISTINCT": "SELECT DISTINCT k, s FROM t",
    "HAVING": "SELECT k, sum(d) AS sd FROM t GROUP BY k HAVING count(*) > 2 AND sum(d) > -100",
    "a condition on a key above the aggregate": (
        "SELECT * FROM (SELECT k, s, sum(a) AS sa FROM t GROUP BY k, s) WHERE k = 1 AND sa IS NOT NULL"
    ),
    "ratio": "SELECT at, 100.00 * sum(CASE WHEN ok THEN d ELSE 0 END) / sum(d) AS r FROM t GROUP BY at",
    "join": (
        "SELECT c.name, sum(t.d * c.cap) AS v, avg(cap) FROM t JOIN c ON t.k = c.k WHERE t.a > -3 GROUP "
        "BY c.name"
    ),
    "comma join": (
        "SELECT t.k, count(*) AS n FROM t, c, c AS e WHERE t.k = c.k AND c.cap = e.cap GROUP BY t.k"
    ),
    "self join": (
        "SELECT l.s, count(*) AS n, sum(r.a) FROM t AS l JOIN t AS r ON l.k = r.k AND l.id < r.id GROUP "
        "BY l.s"
    ),
    "UNION ALL": (
        "SELECT k, sum(v) AS v, count(*) FROM (SELECT k, a AS v FROM t UNION ALL SELECT k, cap FROM c "
        "UNION ALL SELECT k, b FROM t WHERE ok) GROUP BY k"
    ),
    "ROLLUP": "SELECT k, s, grouping_id() AS g, sum(a), avg(d) FROM t GROUP BY ROLLUP (k, s)",
    "CUBE of a union": (
        "SELECT k, name, sum(v) FROM (SELECT k, s AS name, a AS v FROM t UNION ALL SELECT k, name, cap "
        "FROM c) GROUP BY CUBE (k, name)"
    ),
    "explode": "SELECT e, count(*) AS n, sum(a) FROM t LATERAL VIEW explode(l) AS e GROUP BY e",
    "scalar subquery": (
        "SELECT k, sum(d) AS sd FROM t GROUP BY k HAVING sum(d) > (SELECT sum(d) * 0.1 FROM t)"
    ),
    "scalar subqueries within one another": (
        "SELECT (SELECT avg(a) FROM t WHERE id > (SELECT count(*) FROM c)) AS m, k, count(*) FROM t "
        "GROUP BY k"
    ),
    "a condition with a scalar subquery below the aggregate": (
        "SELECT s, count(*) AS n FROM t WHERE a > (SELECT avg(cap) - 4 FROM c) GROUP BY s"
    ),
    "nested aggregates": (
        "SELECT n, count(*) AS groups, max(sa) FROM (SELECT k, count(*) AS n, sum(a) AS sa FROM t GROUP "
        "BY k) GROUP BY n"
    ),
    "window": (
        "SELECT k, s, rank() OVER (PARTITION BY k ORDER BY sum(a) DESC) AS r, sum(sum(d)) OVER "
        "(PARTITION BY s) FROM t GROUP BY k, s"
    ),
    "ORDER BY and LIMIT": "SELECT k, s, sum(b) AS v FROM t GROUP BY k, s ORDER BY v DESC, k, s LIMIT 3",
    "a WITH query read twice": (
        "WITH w AS (SELECT k, sum(a) AS v FROM t GROUP BY k) SELECT l.k, l.v - r.v AS d FROM w AS l JOIN "
        "w AS r ON l.k = r.k + 1"
    ),
    "a state and a relation": (
        "SELECT c.name, g.v FROM c LEFT JOIN (SELECT k, sum(a) AS v FROM t GROUP BY k) AS g ON c.k = g.k"
    ),
    "INTERSECT of aggregates": (
        "SELECT k, count(*) FROM t GROUP BY k INTERSECT SELECT k, count(*) FROM t WHERE id > 0 GROUP BY k"
    ),
    "a relation of which no row is read": (
        "SELECT (SELECT count(k) FROM c WHERE 1 = 0) AS n, t.k, count(c.k) FROM t LEFT JOIN c ON t.k = c.k "
        "AND 1 = 0 GROUP BY t.k"
    ),
    "constants beside a UNION of aggregates": (
        "SELECT * FROM (SELECT 'a' AS kind, k, sum(a) AS v FROM t GROUP BY k UNION ALL SELECT 'b', k, "
        "sum(b) FROM t GROUP BY k) WHERE kind = 'a'"
    ),
    "EXISTS below EXISTS": (
        "SELECT s, count(*) AS n FROM t WHERE EXISTS (SELECT 1 FROM c WHERE c.k = t.k AND NOT EXISTS "
        "(SELECT 1 FROM c AS e WHERE e.cap = c.k)) GROUP BY s"
    ),
    "EXISTS above an aggregate": (
        "SELECT * FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g WHERE EXISTS (SELECT 1 FROM c "
        "WHERE c.k = g.k)"
    ),
}


MIN = "(SELECT min(cap) FROM c)"
VALUES = {
    "filter": "SELECT s, count(*) AS n FROM t WHERE a > (SELECT avg(cap) - 4 FROM c) GROUP BY s",
    "no row, so NULL": (
        "SELECT s, count(*) AS n FROM t WHERE a > coalesce((SELECT cap FROM c WHERE k = 77), 2) GROUP BY s"
    ),
    "join": (f"SELECT c.name, sum(t.a) FROM t JOIN c ON t.k = c.k AND t.a > {MIN} GROUP BY c.name"),
    "outer join": f"SELECT c.name, t.a FROM t LEFT JOIN c ON t.k = c.k AND t.a > {MIN}",
    "full join": f"SELECT c.name, t.a FROM t FULL JOIN c ON t.k = c.k AND t.a > {MIN}",
    "semi join": (f"SELECT a FROM t WHERE EXISTS (SELECT 1 FROM c WHERE c.k = t.k AND t.a > {MIN})"),
    "anti join": (f"SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = t.k AND t.a > {MIN})"),
    "existence join": (
        f"SELECT a FROM t WHERE b > 4 OR EXISTS (SELECT 1 FROM c WHERE c.k = t.k AND t.a > {MIN})"
    ),
    "columns": (
        "SELECT a - (SELECT max(cap) FROM c) AS d, (SELECT max(cap) FROM c) AS m, (SELECT min(name) FROM c) "
        "AS l FROM t"
    ),
    "key and function": (
        f"SELECT a > {MIN} AS g, sum(b - (SELECT max(cap) FROM c)) AS s FROM t GROUP BY a > {MIN}"
    ),
    "FILTER without keys": f"SELECT sum(b) FILTER (WHERE a > {MIN}) AS s FROM t",
    "HAVING": "SELECT k, sum(d) AS sd FROM t GROUP BY k HAVING sum(d) > (SELECT sum(d) * 0.1 FROM t)",
    "column of an aggregate without keys": (
        "SELECT max(a) > (SELECT max(cap) FROM c) AS g FROM t WHERE k = 77"
    ),
    "within one another": (
        "SELECT (SELECT avg(a) FROM t WHERE id > (SELECT count(*) FROM c)) AS m, k, count(*) FROM t "
        "GROUP BY k"
    ),
    "order": f"SELECT k, a FROM t ORDER BY a * {MIN}, id LIMIT 4",
}
"""Queries with scalar subqueries in all kinds of operators."""
STAY_SUBQUERIES = {"column of an aggregate without keys", "order"}
"""Those in which no row can be joined."""


NOT_LINEAR = {
    "scalar subqueries within one another",
    "a condition with a scalar subquery below the aggregate",
    "UNION ALL",
    "CUBE of a union",
    "EXISTS below EXISTS",
}
"""Shapes whose partial sums do not change by a term for each reading.

A scalar subquery or EXISTS below an aggregate changes rows that did not change themselves, and a UNION adds
up its branches: the rows of the others are no part of a term.
"""
CHANGES = {
    "t": {
        "old": ROWS.format(0, 24),
        "new": ROWS.format(5, 30),
        "removed": ROWS.format(0, 5),
        "added": ROWS.format(24, 30),
    },
    "c": {
        "old": "VALUES (0, 'zero', 5), (1, 'one', 3), (2, 'two', 3), (2, NULL, NULL), (9, 'nine', 1)",
        "new": "VALUES (0, 'zero', 5), (1, 'one', 1), (2, 'two', 3), (3, 'three', 3), (9, 'nine', 1)",
        "removed": "VALUES (1, 'one', 3), (2, NULL, NULL)",
        "added": "VALUES (1, 'one', 1), (3, 'three', 3)",
    },
}
"""The old and the new rows of each table, and the rows that came and went."""


KEYS = {
    "t JOIN c ON t.k = c.k": "t.k=c.k",
    "t JOIN c USING (k) JOIN t AS e USING (k)": "t.k=c.k=t.k",
    "t, c WHERE t.k = c.k AND (t.a = c.cap OR t.y > 0)": "t.k=c.k",
    "t JOIN c ON t.b = c.k AND t.s <=> c.name": "t.b=c.k t.s<=>c.name",
    "t JOIN c ON t.y = c.cap": "t.y=c.cap",
    "t JOIN c ON t.d = c.cap": "",
    "t JOIN c ON t.x = c.cap": "",
    "t JOIN c ON upper(t.s) = c.name": "",
    "(SELECT k AS m, a + 1 AS n FROM t) JOIN c ON m = c.k AND n = c.cap": "t.k=c.k",
    "(SELECT * FROM t LATERAL VIEW explode(l) AS e) AS t JOIN c ON t.k = c.k AND t.e = c.cap": "t.k=c.k",
    "(SELECT a, k FROM t UNION ALL SELECT cap, k FROM c) AS u JOIN c AS e ON u.k = e.k": "c.k=t.k|c.k",
    "(SELECT 1 AS a, 2 AS k UNION ALL SELECT cap, k FROM c) AS u JOIN t ON u.a = t.a": "t.a=c.cap",
    "t JOIN (SELECT k, max(cap) AS m FROM c GROUP BY k) AS u ON t.k = u.k AND t.a = u.m": "t.a= t.k=c.k",
    "t JOIN (SELECT c.k, t.a FROM c LEFT JOIN t USING (k)) AS u ON t.k = u.k": "t.k=c.k",
}
"""The keys of the blocks of a join that an aggregate is over, by its FROM clause."""


FACTS = ("Aggregate", "Expand", "DataSourceV2Relation", "Filter")


class StagedWorld:
    """The tables `t` and `c` with their old rows, and queries in stages."""

    def __init__(self, world: RefreshWorld) -> None:
        self.session, self.namespace = world.session, world.namespace
        # Tiny jobs take less time so.
        self.session.conf.set("spark.sql.shuffle.partitions", "1")
        self.session.conf.set("spark.sql.adaptive.enabled", "false")
        for name, columns in {"t": T, "c": C}.items():
            world.spark(
                f"CREATE TABLE {name} ({columns}) USING iceberg", f"INSERT INTO {name} {CHANGES[name]['old']}"
            )

    def staged(self, text: str) -> tuple[StagedQuery, list[str]]:
        """Return a query in stages, and the table of each of its readings."""
        query, sources = staged(self.session, text)
        return query, [source.rpartition(".")[2] for source in sources]

    def rows(self, name: str, kind: str) -> DataFrame:
        """Return rows of a table from CHANGES, with its columns."""
        rows = self.session.sql(CHANGES[name][kind])
        return self.session.table(name).limit(0).unionAll(rows)


@pytest.fixture
def staged_world(world: RefreshWorld) -> StagedWorld:
    return StagedWorld(world)


def with_values(query: StagedQuery, leaves: Mapping[int, DataFrame]) -> dict[str, DataFrame]:
    """Return the value of each scalar subquery, computed from the inner ones, at the root of its tree."""
    values = dict[str, DataFrame]()
    for tree in reversed(range(1, len(query.trees()))):
        query.rest({}, leaves, values, tree=tree).createOrReplaceTempView(f"tree{tree}")
        row = query.session.sql(f"SELECT (SELECT * FROM tree{tree}) AS c0")
        values[json.dumps([tree, []])] = query.session.createDataFrame(row.collect(), row.schema)
    return values


def negated(partials: DataFrame) -> DataFrame:
    """Return the partial sums of removed rows."""
    return partials.selectExpr(
        *(name if name.startswith("k") else f"-{name} AS {name}" for name in partials.columns)
    )


def test_the_rest_over_partial_sums_returns_what_the_query_returns(staged_world: StagedWorld) -> None:
    for name, text in SHAPES.items():
        assert check_rest(staged_world.session, name, text), name


def test_partial_sums_of_changed_rows_turn_those_of_the_old_rows_into_those_of_the_new(
    staged_world: StagedWorld,
) -> None:
    rows = {(table, kind): staged_world.rows(table, kind) for table in CHANGES for kind in CHANGES[table]}
    for name in [name for name in SHAPES if name not in NOT_LINEAR][:: 1 if DEPTH > 1 else 3]:
        query, tables = staged_world.staged(SHAPES[name])
        at = {
            kind: {number: rows[table, kind] for number, table in enumerate(tables)} for kind in CHANGES["t"]
        }
        for place in places_of(query):
            state = query.folded(place, query.groups(place, at["old"]))
            assert columns_of(state) == columns_of(query.folded(place, state)), name
            for number in at["new"]:
                earlier = {each: at["new" if each < number else "old"][each] for each in at["new"]}
                added, removed = (
                    query.groups(place, earlier | {number: at[kind][number]}) for kind in ("added", "removed")
                )
                state = state.unionAll(added).unionAll(negated(removed))

            folded = query.folded(place, state)

            assert [(each.name, each.dataType) for each in query.schema(place)] == columns_of(folded), name
            assert rows_of(folded) == rows_of(query.folded(place, query.groups(place, at["new"]))), name


def test_values_of_scalar_subqueries_may_be_given_as_rows(staged_world: StagedWorld) -> None:
    session = staged_world.session
    for name, text in VALUES.items():
        query, tables = staged_world.staged(text)
        leaves = {number: session.table(table) for number, table in enumerate(tables)}
        values = with_values(query, leaves)

        states = {
            place: query.groups(place, leaves, values) for place in places_of(query) if has_sums(query, place)
        }
        result = query.rest(states, leaves, values)

        assert values, name
        assert rows_of(result) == rows_of(session.sql(text)), name
        plan = str(result._jdf.queryExecution().optimizedPlan())
        assert ("scalar-subquery" in plan) == (name in STAY_SUBQUERIES), plan


def test_a_sum_beyond_the_type_of_the_query_fails_as_the_query_does_until_it_is_back(
    staged_world: StagedWorld,
) -> None:
    session, text = staged_world.session, "SELECT k, sum(b) AS b FROM t GROUP BY k"
    query, _ = staged_world.staged(text)
    (place,) = places_of(query)
    most, more = (
        query.groups(place, {0: session.sql(f"SELECT 1 AS k, {value} AS b FROM range({times})")})
        for value, times in ((2**62 - 1, 2), (2, 1))
    )
    too_much = most.unionAll(more)

    with pytest.raises(SPARK_ERRORS):
        query.rest({place: too_much}, {}).collect()
    assert rows_of(query.rest({place: too_much.unionAll(negated(more))}, {})) == [f"(1, {2**63 - 2})"]


def test_a_sum_beyond_38_digits_fails(staged_world: StagedWorld) -> None:
    session = staged_world.session
    query, _ = staged_world.staged("SELECT avg(w) AS w FROM t")
    (place,) = places_of(query)
    most = session.sql(f"SELECT CAST({'9' * 34} AS DECIMAL(38, 4)) AS w")

    assert query.folded(place, query.groups(place, {0: most})).count() == 1
    with pytest.raises(SPARK_ERRORS):
        query.folded(place, query.groups(place, {0: most.unionAll(most)})).collect()


def test_given_rows_need_only_the_columns_that_the_query_reads(staged_world: StagedWorld) -> None:
    query, _ = staged_world.staged("SELECT k, sum(a) AS a FROM t WHERE ok GROUP BY k")
    (place,) = places_of(query)
    rows = staged_world.rows("t", "old")

    groups = query.groups(place, {0: rows.select("ok", "a", "k")})

    assert rows_of(groups) == rows_of(query.groups(place, {0: rows}))
    with pytest.raises(SPARK_ERRORS, match="There are no columns ok"):
        query.groups(place, {0: rows.select("k", "a")})


def test_rows_of_an_operator_without_columns_are_passed_on(staged_world: StagedWorld) -> None:
    query, tables = staged_world.staged(
        "SELECT count(*) AS n FROM (SELECT k FROM t UNION ALL SELECT k FROM c)"
    )
    leaves = {number: staged_world.rows(table, "old") for number, table in enumerate(tables)}

    rows = collect_or_checkpoint(query.rows("[0, [0]]", leaves, {}))

    assert rows.columns == query.columns("[0, [0]]").names
    assert rows_of(query.rows("[0, []]", {}, {"[0, [0]]": rows.frame})) == ["(29,)"]


def test_an_aggregate_that_partial_sums_do_not_give_is_no_stage(staged_world: StagedWorld) -> None:
    for function in ("sum(x)", "avg(x)", "count(DISTINCT a)", "max(a)", "stddev(a)"):
        check_no_stage(staged_world, f"SELECT k, {function} AS v FROM t GROUP BY k")
    check_no_stage(staged_world, "SELECT count(DISTINCT a, k) AS n FROM t")


def check_no_stage(staged_world: StagedWorld, text: str) -> None:
    query, _ = staged_world.staged(text)
    (place,) = places_of(query)

    with pytest.raises(SPARK_ERRORS, match="Partial sums do not give"):
        query.schema(place)


def test_the_keys_of_a_join_are_the_columns_that_its_conditions_equate(staged_world: StagedWorld) -> None:
    for joined, keys in KEYS.items():
        query, tables = staged_world.staged(f"SELECT count(*) AS n FROM {joined}")
        plan = compile_stages(query.trees(), sources=tables, version="")
        assert isinstance(plan, StagePlan), plan

        blocks = plan.stages[0].blocks
        found = list[str]()
        for key in blocks.root.joins.keys:
            columns = [
                "|".join(f"{tables[of.reading]}.{of.column}" for of in blocks.columns_of_tables(each))
                for each in key.columns
            ]
            found.append(("<=>" if key.null_safe else "=").join(columns))

        assert " ".join(found) == keys, joined


def test_the_trees_of_a_query_say_what_stages_need(staged_world: StagedWorld) -> None:
    session = staged_world.session
    first = session.sql(f"SELECT snapshot_id FROM lake.{staged_world.namespace}.t.snapshots").first()
    assert first is not None
    query, _ = staged_world.staged(
        "SELECT k, s, try_sum(a) AS a, count(DISTINCT b) FILTER (WHERE ok) AS n, avg(d) AS d FROM (SELECT k, "
        "s, a, b, d, ok FROM t WHERE rand() < 2 UNION ALL SELECT c.k, name, cap, id, 2.50BD, true FROM c "
        f"JOIN t VERSION AS OF {first[0]} AS e ON c.k = e.k) WHERE a > (SELECT count(*) FROM c) "
        "GROUP BY ROLLUP (k, s)"
    )

    tree, value = query.trees()

    found = {name: [node for node in tree if node["class"].endswith(name)] for name in FACTS}
    (aggregate,), (expand,) = found["Aggregate"], found["Expand"]
    assert aggregate["keyTypes"] == ["int", "string", "bigint"]
    assert aggregate["functions"] == [
        {"kind": "Sum", "inputType": "int", "resultType": "bigint", "evalMode": "TRY", "distinct": False}
        | {"filtered": False},
        {"kind": "Count", "inputType": "bigint", "resultType": "bigint", "evalMode": None, "distinct": True}
        | {"filtered": True},
        {"kind": "Average", "inputType": "decimal(12,2)", "resultType": "decimal(16,6)", "evalMode": "ANSI"}
        | {"distinct": False, "filtered": False},
    ]
    assert [len(each) for each in expand["projections"]] == [len(expand["output"])] * 3
    relations = found["DataSourceV2Relation"]
    assert [each.get("reading") for each in relations] == [0, 1, None]
    assert (relations[2]["relation"], str(first[0]) in relations[2]["version"]) == (
        f"lake.{staged_world.namespace}.t",
        True,
    )
    assert [each["deterministic"] for each in found["Filter"]].count(False) == 1
    assert '"subquery": 1' in json.dumps(tree)
    assert [node.get("reading") for node in value if "reading" in node] == [2]
