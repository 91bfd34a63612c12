"""Queries that are maintained by stages, over sources that all change at once.

`f` is a table of facts; `o` and `p` are tables that describe it; `e` is empty at first; `t` has a column of
each type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

SOURCES = {
    "f": {
        "id": "INT", "k": "INT", "g": "STRING", "d": "DOUBLE", "day": "DATE", "a": "DECIMAL", "wide": "LARGE",
        "b": "BIGINT",
    },
    "o": {"k": "INT", "p": "INT", "name": "STRING", "rate": "DECIMAL", "flag": "BOOLEAN"},
    "p": {"p": "INT", "region": "STRING", "w": "INT"},
    "e": {"k": "INT", "a": "DECIMAL", "b": "BIGINT", "note": "STRING"},
    "t": {
        "k": "INT", "n": "BIGINT", "s": "STRING", "day": "DATE", "at": "TIMESTAMP", "ntz": "NTZ",
        "flag": "BOOLEAN", "a": "DECIMAL", "wide": "LARGE", "d": "DOUBLE", "real": "FLOAT", "raw": "BINARY",
    },
}  # fmt: skip
"""The columns of each source, with their types (`tests.integration.source_stories.TYPES`)."""

REQUIRED = frozenset({("f", "id")})
"""The columns that are NOT NULL, of which Spark's rules remove readings."""

_BY_K = "SELECT k, sum(a) AS s, count(*) AS n FROM f GROUP BY k"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWithStages:
    """A query, and the sources that it reads."""

    name: str
    sql: str
    sources: tuple[str, ...]


def _queries(**texts: str) -> Iterator[QueryWithStages]:
    for name, text in texts.items():
        sources, _, sql = text.partition(": ")
        yield QueryWithStages(name=name.replace("_", " "), sql=sql, sources=tuple(sources.split()))


QUERIES_WITH_STAGES = (
    *_queries(
        not_null="f: SELECT k, count(id) AS n, avg(id) AS m, "
        "sum(CASE WHEN id IS NULL THEN 0 ELSE a END) AS s FROM f WHERE id = id GROUP BY k",
        not_null_except="f p: SELECT v, count(*) AS n, avg(v) AS m FROM (SELECT id AS v FROM f EXCEPT ALL "
        "SELECT p FROM p) GROUP BY v",
        averages="f: SELECT k, g, avg(a) AS m, avg(b) AS mb, sum(wide) / count(*) AS r, count(d) AS n "
        "FROM f GROUP BY k, g",
        having="f: SELECT g, sum(b) AS s FROM f GROUP BY g HAVING count(*) > 2 AND avg(a) < 2",
        ratio="f: SELECT g, 100 * sum(CASE WHEN k = 1 THEN a ELSE 0 END) / nullif(sum(a), 0) AS share "
        "FROM f GROUP BY g",
        one_row="f: SELECT count(*) AS n, sum(a) AS s, avg(wide) AS m, count(*) FILTER (WHERE k > 2) AS c "
        "FROM f",
        filters="f: SELECT k, sum(a) FILTER (WHERE b > 1) AS s, avg(b) FILTER (WHERE g = 'a') AS m "
        "FROM f WHERE day IS NOT NULL GROUP BY k",
        keys_that_are_doubles="f: SELECT d, count(*) AS n, avg(a) AS m FROM f GROUP BY d",
        keys_that_are_computed="f: SELECT date_trunc('MONTH', day) AS m, k % 2 = 0 AS e, avg(b) AS x FROM f "
        "GROUP BY date_trunc('MONTH', day), k % 2 = 0",
        key_not_in_the_list="f: SELECT sum(a) AS s, avg(b) AS m FROM f GROUP BY k",
        histogram="f: SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM f GROUP BY k) GROUP BY n",
        maximum_of_sums="f: SELECT g, max(s) AS m, min(n) AS l FROM (SELECT g, k, sum(a) AS s, count(*) AS n "
        "FROM f GROUP BY g, k) GROUP BY g",
        the_same_twice=f"f: SELECT x.k, x.s - y.s AS grown FROM ({_BY_K}) AS x JOIN ({_BY_K}) AS y "
        "ON x.k = y.k + 1",
        with_twice=f"f: WITH w AS ({_BY_K}) SELECT x.k, x.s, y.n FROM w AS x LEFT JOIN w AS y "
        "ON x.k = y.k + 1",
        top="f: SELECT k, sum(wide) AS s FROM f GROUP BY k ORDER BY s DESC, k LIMIT 3",
        window="f: SELECT g, k, s, rank() OVER (PARTITION BY g ORDER BY s DESC, k) AS r, "
        "sum(s) OVER (PARTITION BY g) AS t FROM (SELECT g, k, sum(a) AS s FROM f GROUP BY g, k)",
        rollup="f: SELECT g, k, grouping_id() AS i, sum(a) AS s, count(*) AS n FROM f GROUP BY ROLLUP (g, k)",
        cube="f: SELECT g, day, avg(a) AS m FROM f GROUP BY CUBE (g, day)",
        exploded="f: SELECT w, count(*) AS n, avg(k) AS m FROM f LATERAL VIEW explode(split(g, '')) AS w "
        "GROUP BY w",
        distinct_rows="f: SELECT count(*) AS n FROM (SELECT DISTINCT g, k FROM f)",
        distinct_functions="f o: SELECT count(DISTINCT f.k) AS n, sum(DISTINCT f.a) FILTER (WHERE f.b > 1) "
        "AS s, count(DISTINCT o.name) AS m, avg(f.b) AS v, count(*) AS r FROM f JOIN o ON f.k = o.k",
        above_the_average="f: SELECT g, s FROM (SELECT g, sum(a) AS s FROM f GROUP BY g) "
        "WHERE s > (SELECT avg(a) FROM f)",
        share_of_all="f: SELECT g, sum(a) AS s, (SELECT sum(a) FROM f) AS total FROM f GROUP BY g",
        no_row="f: SELECT k, avg(a) AS m FROM f WHERE g = 'never' GROUP BY k",
        no_table="e: SELECT avg(a) AS m, count(*) AS n, sum(b) AS s FROM e",
        no_table_by_key="e: SELECT k, avg(a) AS m FROM e GROUP BY k",
        join="f o: SELECT o.name, sum(f.a) AS s, count(*) AS n FROM f JOIN o ON f.k = o.k GROUP BY o.name",
        join_of_one_row="f o: SELECT count(*) AS n, avg(f.a) AS m FROM f JOIN o ON f.k = o.k AND f.b > o.p",
        join_of_three="f o p: SELECT p.region, f.day, sum(f.a * o.rate) AS s, avg(f.b) AS m "
        "FROM f JOIN o ON f.k = o.k JOIN p ON o.p = p.p GROUP BY p.region, f.day",
        join_of_four="f o p e: SELECT p.region, avg(f.a + e.a) AS m, count(*) AS n "
        "FROM f, o, p, e WHERE f.k = o.k AND o.p = p.p AND e.k = f.k GROUP BY p.region HAVING count(*) > 1",
        self_join="f: SELECT x.g, count(*) AS n, sum(y.a) AS s FROM f AS x JOIN f AS y ON x.k = y.k "
        "AND x.id < y.id GROUP BY x.g",
        union="f o e: SELECT k, sum(v) AS s, avg(v) AS m FROM (SELECT k, a AS v FROM f UNION ALL "
        "SELECT k, rate FROM o UNION ALL SELECT k, a FROM e) GROUP BY k",
        union_of_states="f o: SELECT 'f' AS w, sum(a) AS s FROM f UNION ALL SELECT 'o', sum(rate) FROM o",
        full_join_of_states="f o: SELECT x.k, x.n, y.k AS k2, y.m FROM (SELECT k, count(*) AS n FROM f "
        "GROUP BY k) AS x FULL JOIN (SELECT k, avg(rate) AS m FROM o GROUP BY k) AS y ON x.k <=> y.k",
        state_in_states="f o: SELECT k, s FROM (SELECT k, sum(a) AS s FROM f GROUP BY k) WHERE k IN "
        "(SELECT k FROM (SELECT k, count(*) AS n FROM o GROUP BY k) WHERE n > 1)",
        state_and_relation="f o: SELECT o.name, x.n, x.m FROM o JOIN (SELECT k, count(*) AS n, avg(a) AS m "
        "FROM f GROUP BY k) AS x ON x.k = o.k",
    ),
)

"""Queries of which the lowest aggregates are kept."""

QUERIES_WITHOUT_STAGES = (
    *_queries(
        negated_key="f: SELECT b > 1 AS g, NOT (b > 1) AS h, avg(a) AS m FROM f GROUP BY b > 1",
        groups_that_raise="f: SELECT * FROM (SELECT k, sum(6 DIV k) AS s, avg(a) AS m FROM f GROUP BY k) "
        "WHERE k = 1",
        not_null_merged="f: SELECT k, count(id) AS n, sum(a) AS s FROM f WHERE id IS NOT NULL GROUP BY k",
        not_null_signed="f: SELECT k, id IS NULL AS z FROM f WHERE id = id",
    ),
)
"""Queries that are like these, but maintained in another way."""

VALUES = (
    *_queries(
        above_the_average_row="f o: SELECT o.name, count(*) AS n, avg(f.a) AS m FROM f JOIN o ON f.k = o.k "
        "WHERE f.a > (SELECT avg(a) FROM f) GROUP BY o.name",
        below_a_value_of_another="f o p: SELECT o.name, avg(f.a) AS m FROM f JOIN o ON f.k = o.k "
        "WHERE f.b <= (SELECT max(w) FROM p) GROUP BY o.name",
        values_in_keys_and_functions="f p: SELECT f.k > (SELECT min(w) FROM p) AS g, avg(f.a - (SELECT "
        "sum(w) FROM p)) AS m, (SELECT sum(w) FROM p) AS t FROM f GROUP BY f.k > (SELECT min(w) FROM p)",
        a_value_above_and_below="f o: SELECT g, m, n FROM (SELECT g, avg(a) AS m, count(*) AS n FROM f WHERE "
        "k < (SELECT count(*) FROM o WHERE flag) GROUP BY g) "
        "WHERE n > (SELECT count(*) FROM o WHERE flag) - 3",
        a_value_of_a_value="f o p: SELECT g, avg(a) AS m FROM f WHERE k < (SELECT count(*) FROM o WHERE "
        "rate > (SELECT avg(w) FROM p)) GROUP BY g",
        a_value_that_may_be_null="f e: SELECT g, avg(a) AS m, count(*) AS n FROM f WHERE coalesce(k < "
        "(SELECT k FROM e ORDER BY k, a, b, note LIMIT 1), true) GROUP BY g",
        rows_that_exist_below="f p: SELECT g, avg(a) AS m, count(*) AS n FROM f WHERE NOT EXISTS (SELECT 1 "
        "FROM p WHERE w > 4) OR k > 3 GROUP BY g",
        a_condition_of_a_join="f o p: SELECT p.region, avg(f.a) AS m FROM f JOIN o ON f.k = o.k "
        "AND f.a + o.rate > (SELECT avg(b) FROM f) JOIN p ON o.p = p.p GROUP BY p.region",
        values_of_every_type="t f: SELECT g, avg(f.a) AS m FROM f WHERE day <= (SELECT max(day) FROM t) OR "
        "wide > (SELECT max(wide) FROM t) OR d > (SELECT max(d) FROM t) OR g = (SELECT max(s) FROM t) OR "
        "(SELECT max(flag) AND max(at) > max(ntz) AND max(real) > 0 FROM t) GROUP BY g",
    ),
)
"""Queries with scalar subqueries below states."""

ROWS_OVER_VALUES = (
    *_queries(
        rows_above_the_average="f: SELECT id, g, k FROM f WHERE a > (SELECT avg(a) FROM f)",
        rows_with_a_value="f p: SELECT id, b - (SELECT max(w) FROM p) AS x, d FROM f "
        "WHERE b <= (SELECT sum(w) FROM p)",
        joined_rows_with_values="f o p: SELECT f.id, o.name, (SELECT min(w) FROM p) AS w FROM f "
        "LEFT JOIN o ON f.k = o.k AND f.a < (SELECT max(rate) FROM o)",
        rows_of_two_with_values="f o p: SELECT f.id, o.name, f.a + o.rate AS x FROM f JOIN o ON f.k = o.k "
        "AND o.p <> (SELECT count(*) FROM p WHERE w > 3)",
        groups_over_a_value="f o: SELECT k, max(b) AS m, count(DISTINCT g) AS n FROM f "
        "WHERE b > (SELECT count(*) FROM o WHERE flag) - 4 GROUP BY k",
        rows_where_some_exist="f o: SELECT id, g FROM f WHERE EXISTS (SELECT 1 FROM o WHERE flag AND "
        "rate > 5) OR k > (SELECT avg(p) FROM o)",
        rows_over_a_value_of_a_value="f o p: SELECT id, day FROM f WHERE k < (SELECT count(*) FROM o WHERE "
        "rate > (SELECT avg(w) FROM p))",
        rows_over_null="f e: SELECT id, wide FROM f WHERE coalesce(k < (SELECT k FROM e ORDER BY k, a, b, "
        "note LIMIT 1), true)",
        union_with_values="f e o: SELECT k, a FROM f WHERE b > (SELECT min(p) FROM o) UNION ALL SELECT k, "
        "(SELECT count(*) FROM o) FROM e",
        rows_with_values_of_every_type="t f: SELECT f.id, (SELECT max(day) FROM t) AS day, (SELECT max(wide) "
        "FROM t) AS w, (SELECT max(d) FROM t) AS d, (SELECT max(s) FROM t) AS s, (SELECT max(real) FROM t) "
        "AS r, (SELECT max(at) FROM t) AS at, (SELECT max(ntz) FROM t) AS ntz, (SELECT max(raw) FROM t) "
        "AS b, (SELECT bool_or(flag) FROM t) AS flag, (SELECT max(struct(k, s)) FROM t) AS x FROM f",
    ),
)
"""Queries whose rows depend on scalar subqueries, in which alone there are states."""

JOINS = (
    *_queries(
        cycle="f o p: SELECT p.region, count(*) AS n, sum(f.a) AS s FROM f, o, p "
        "WHERE f.k = o.k AND o.p = p.p AND p.w = f.k GROUP BY p.region",
        cycle_of_other_keys="f o p: SELECT o.name, count(*) AS n, sum(f.a) AS s FROM f, o, p "
        "WHERE f.k = o.k AND o.p = p.p AND f.g = p.region GROUP BY o.name",
        pairs_of_keys="f o: SELECT o.flag, count(*) AS n, sum(f.a) AS s FROM f JOIN o "
        "ON f.k = o.k AND f.g = o.name GROUP BY o.flag",
        null_is_a_key="f o: SELECT o.name, count(*) AS n, sum(f.a) AS s FROM f JOIN o ON f.k <=> o.k "
        "GROUP BY o.name",
        null_is_a_key_of_three="f o p: SELECT o.name, p.w, count(*) AS n, sum(f.a) AS s FROM f "
        "JOIN o ON f.k <=> o.k JOIN p ON o.p <=> p.p AND p.region <=> f.g GROUP BY o.name, p.w",
        null_is_a_key_of_one="f o p: SELECT p.region, count(*) AS n, sum(o.rate) AS s FROM f "
        "JOIN o ON f.k <=> o.k JOIN p ON f.k = p.w GROUP BY p.region",
        self_join_by_other_columns="o: SELECT x.name, count(*) AS n, sum(y.rate) AS s FROM o AS x "
        "JOIN o AS y ON x.k = y.p GROUP BY x.name",
        self_join_of_three="o: SELECT x.name, count(*) AS n, sum(z.rate) AS s FROM o AS x "
        "JOIN o AS y ON x.k = y.p JOIN o AS z ON y.k = z.p AND z.flag GROUP BY x.name",
        a_dimension_twice="f p: SELECT x.region, y.w, count(*) AS n, sum(f.a) AS s FROM f "
        "JOIN p AS x ON f.k = x.p JOIN p AS y ON f.b = y.p WHERE y.w > 1 GROUP BY x.region, y.w",
        other_conditions="f o p: SELECT p.region, count(*) AS n, sum(f.a) AS s FROM f, o, p WHERE f.k = o.k "
        "AND o.p = p.p AND (f.g = 'a' AND p.region <> 'a' OR f.g <> 'a' AND p.region = 'a') AND f.id >= p.w "
        "GROUP BY p.region",
        no_equality="f p: SELECT p.region, count(*) AS n, sum(f.a) AS s FROM f JOIN p ON f.k > p.p "
        "GROUP BY p.region",
        cross_join="f p: SELECT p.region, count(*) AS n, sum(f.a) AS s FROM f CROSS JOIN p GROUP BY p.region",
        cross_join_without_columns="f p: SELECT count(*) AS n FROM f CROSS JOIN p",
        cross_join_of_joins="f o p t: SELECT p.region, count(*) AS n, sum(f.a * o.rate) AS s FROM f "
        "JOIN o ON f.k = o.k CROSS JOIN p JOIN t ON p.w = t.k GROUP BY p.region",
        joined_union="f o e: SELECT o.name, count(*) AS n, sum(u.a) AS s FROM (SELECT k, a FROM f "
        "UNION ALL SELECT k, a FROM e) AS u JOIN o ON u.k = o.k GROUP BY o.name",
        joined_union_of_joins="f o p e t: SELECT t.s AS g, count(*) AS n, sum(u.a) AS s FROM (SELECT o.p, "
        "f.a FROM f JOIN o ON f.k = o.k UNION ALL SELECT p.w, e.a FROM e JOIN p ON e.k = p.p) AS u "
        "JOIN t ON u.p = t.k GROUP BY t.s",
        union_of_joins="f o p e: SELECT g, count(*) AS n, sum(v) AS s FROM (SELECT o.name AS g, f.a AS v "
        "FROM f JOIN o ON f.k = o.k UNION ALL SELECT p.region, e.a FROM e JOIN p ON e.k = p.p) GROUP BY g",
        union_of_a_source="f o: SELECT o.name, count(*) AS n, sum(u.a) AS s FROM (SELECT k, a FROM f "
        "WHERE g = 'a' UNION ALL SELECT b, -a FROM f WHERE b > 0) AS u JOIN o ON u.k = o.k GROUP BY o.name",
        aliases="f o: SELECT y.name, count(*) AS n, sum(x.v) AS s FROM (SELECT k AS c, a AS v FROM f "
        "WHERE a > 0) AS x JOIN (SELECT k AS c, name, flag FROM o) AS y ON x.c = y.c WHERE y.flag "
        "GROUP BY y.name",
        computed_keys="f o p: SELECT p.region, count(*) AS n, sum(f.a) AS s FROM f JOIN o ON f.k + 1 = o.k "
        "JOIN p ON o.p = p.p GROUP BY p.region",
        computed_rows="f o: SELECT o.name, count(*) AS n, sum(x.a) AS s FROM (SELECT k, a, w FROM f "
        "LATERAL VIEW explode(split(g, '')) AS w) AS x JOIN o ON x.k = o.k AND o.name = x.w GROUP BY o.name",
        constant_rows="f o: SELECT v.n, count(*) AS c, sum(f.a) AS s FROM f JOIN o ON f.k = o.k "
        "JOIN VALUES (1, 'x'), (2, 'y'), (NULL, 'z') AS v(k, n) ON o.p = v.k GROUP BY v.n",
        sets_of_joined_rows="f o p: SELECT o.name, p.region, count(*) AS n, sum(f.a) AS s FROM f, o, p "
        "WHERE f.k = o.k AND o.p = p.p GROUP BY ROLLUP (o.name, p.region)",
        condition_that_raises="f o: SELECT o.name, count(*) AS n, sum(f.a) AS s FROM f JOIN o ON f.k = o.k "
        "WHERE f.k > 0 AND 6 DIV f.k > 1 GROUP BY o.name",
        join_twice="f o: SELECT name, s FROM (SELECT o.name, sum(f.a) AS s FROM f JOIN o ON f.k = o.k "
        "GROUP BY o.name) WHERE s > (SELECT avg(f.a) FROM f JOIN o ON f.k = o.k)",
        rows_only="f o: SELECT count(*) AS n FROM f JOIN o ON f.k = o.k",
        key_that_is_not_null="f o: SELECT o.name, count(*) AS n, avg(f.a) AS m FROM f JOIN o ON f.id = o.k "
        "GROUP BY o.name",
        five="f o p e t: SELECT p.region, count(*) AS n, sum(t.a) AS s FROM f, o, p, e, t WHERE f.k = o.k "
        "AND o.p = p.p AND e.k = f.k AND t.day = f.day AND t.s = p.region GROUP BY p.region",
        integers_of_both_sizes="t f o: SELECT o.name, count(*) AS n, sum(t.a) AS s FROM t "
        "JOIN o ON t.n = o.k JOIN f ON f.b = t.k GROUP BY o.name",
        decimals_of_both_sizes="t: SELECT x.s, count(*) AS n FROM t AS x JOIN t AS y ON x.a = y.wide "
        "GROUP BY x.s",
    ),
    *_queries(
        **{
            f"key_of_type_{type_.lower()}": "t f: SELECT x.k, count(*) AS n, sum(f.a) AS s FROM t AS x "
            f"JOIN t AS y ON x.{column} = y.{column} AND y.k > 1 JOIN f ON f.k = y.n GROUP BY x.k"
            for column, type_ in SOURCES["t"].items()
        }
    ),
)
"""Joins, of which a refresh looks up what the changed rows are joined with."""

_ROWS = "SELECT h % 3 AS g, count(*) AS n, sum(h) AS s FROM (SELECT hash(*) AS h FROM ({})) GROUP BY h % 3"


def below_sums(text: str) -> str:
    """Return a query for sums that depend on all values of the rows of a query."""
    return _ROWS.format(text)


def _below_sums(**texts: str) -> Iterator[QueryWithStages]:
    for query in _queries(**texts):
        yield replace(query, sql=below_sums(query.sql))


COMPUTED_READINGS = (
    *_queries(
        left_join="f o: SELECT o.name, count(*) AS n, sum(f.a) AS s, avg(o.rate) AS m FROM f "
        "LEFT JOIN o ON f.k = o.k GROUP BY o.name",
        left_join_where_null="f o: SELECT f.g, count(*) AS n FROM f LEFT JOIN o ON f.k = o.k "
        "WHERE coalesce(o.flag, true) GROUP BY f.g",
        customers_by_orders="f o: SELECT n, count(*) AS m FROM (SELECT o.p, count(f.id) AS n FROM o "
        "LEFT JOIN f ON o.k = f.k AND f.g <> 'b' GROUP BY o.p) GROUP BY n",
        full_join="f o: SELECT coalesce(f.k, o.k) AS k, count(f.id) AS n, count(o.p) AS m FROM f "
        "FULL JOIN o ON f.k = o.k AND f.b > o.p GROUP BY coalesce(f.k, o.k)",
        semi_join="f o: SELECT f.g, sum(f.a) AS s FROM f WHERE EXISTS (SELECT 1 FROM o WHERE o.k = f.k AND "
        "o.p < f.b) GROUP BY f.g",
        anti_join="f o: SELECT f.g, sum(f.a) AS s FROM f WHERE NOT EXISTS (SELECT 1 FROM o "
        "WHERE o.k = f.k) GROUP BY f.g",
        semi_and_anti_join_of_itself="f: SELECT x.g, count(*) AS n FROM f AS x WHERE EXISTS (SELECT 1 FROM f "
        "AS y WHERE y.k = x.k AND y.id <> x.id) AND NOT EXISTS (SELECT 1 FROM f AS z WHERE z.k = x.k "
        "AND z.id <> x.id AND z.b > 1) GROUP BY x.g",
        exists_or="f o: SELECT g, count(*) AS n FROM f WHERE b > 3 OR k IN (SELECT o.p FROM o) GROUP BY g",
        above_its_average="f p: SELECT p.region, sum(f.a) AS s FROM f JOIN p ON f.k = p.p WHERE f.b < "
        "(SELECT 0.8 * avg(y.a) FROM f AS y WHERE y.k = p.p) GROUP BY p.region",
        count_distinct="f: SELECT n, count(*) AS m FROM (SELECT k, count(DISTINCT g) AS n FROM f GROUP BY k) "
        "GROUP BY n",
        extremes="f o: SELECT o.flag, sum(x.most) AS s, sum(x.least) AS l FROM o JOIN (SELECT k, "
        "max(a) AS most, min(b) AS least FROM f GROUP BY k) AS x ON x.k = o.k GROUP BY o.flag",
        window="f: SELECT g, r, count(*) AS n, sum(t) AS s FROM (SELECT g, rank() OVER (PARTITION BY k "
        "ORDER BY b DESC) AS r, sum(a) OVER (PARTITION BY k) AS t FROM f) WHERE r <= 3 GROUP BY g, r",
        distinct_rows_joined="f o: SELECT o.name, count(*) AS n FROM o JOIN (SELECT DISTINCT k, g FROM f) "
        "AS x ON x.k = o.k GROUP BY o.name",
        except_below="f o: SELECT x.k % 2 AS h, count(*) AS n FROM (SELECT k FROM f EXCEPT SELECT k FROM o) "
        "AS x GROUP BY x.k % 2",
        intersect_joined="f o: SELECT f.g, count(*) AS n FROM f JOIN (SELECT k FROM o INTERSECT SELECT p "
        "FROM p) AS x ON f.k = x.k GROUP BY f.g",
        union_of_computed="f o e: SELECT u.k, count(*) AS n, sum(u.a) AS s FROM (SELECT f.k, f.a FROM f "
        "LEFT JOIN o ON f.k = o.k UNION ALL SELECT e.k, e.a FROM e LEFT ANTI JOIN o ON e.k = o.p) AS u "
        "GROUP BY u.k",
        large_orders="f o: SELECT o.name, sum(f.a) AS s FROM o JOIN f ON o.k = f.k WHERE o.k IN (SELECT k "
        "FROM f GROUP BY k HAVING sum(b) > 6) GROUP BY o.name",
    ),
    *_below_sums(
        left_join_of_all="f o: SELECT f.*, o.name, o.rate FROM f LEFT JOIN o ON f.k = o.k AND f.g = o.name",
        right_join="f o: SELECT f.id, f.d, o.* FROM f RIGHT JOIN o ON f.k = o.k AND f.a < o.rate",
        null_safe_left_join="f o: SELECT f.id, o.name FROM f LEFT JOIN o ON f.k <=> o.k",
        null_safe_full_join="f o: SELECT f.id, f.k, o.name, o.k AS k2 FROM f FULL JOIN o ON f.k <=> o.k",
        full_join_by_two="f o: SELECT f.id, o.name, o.p FROM f FULL JOIN o ON f.k = o.k AND f.b <=> o.p",
        full_join_of_filters="f o: SELECT f.id, o.k FROM (SELECT * FROM f WHERE b > 1) AS f FULL JOIN "
        "(SELECT * FROM o WHERE flag) AS o ON f.k = o.k",
        null_safe_semi_join="f o: SELECT * FROM f LEFT SEMI JOIN o ON f.k <=> o.k AND f.b <=> o.p",
        null_safe_anti_join="f o: SELECT * FROM f LEFT ANTI JOIN o ON f.k <=> o.k",
        not_in="f p: SELECT * FROM f WHERE k NOT IN (SELECT p FROM p WHERE w > 2)",
        left_join_by_range="f p: SELECT f.id, p.region FROM f LEFT JOIN p ON f.k < p.p",
        semi_join_by_range="f p: SELECT f.id, f.g FROM f LEFT SEMI JOIN p ON f.k < p.p",
        left_join_by_doubles="t: SELECT x.k, y.n FROM t AS x LEFT JOIN t AS y ON x.d = y.real",
        left_join_by_text_and_day="f t: SELECT f.id, f.d, t.n, t.raw FROM f LEFT JOIN t ON f.g = t.s "
        "AND f.day = t.day",
        two_left_joins="f o p: SELECT f.id, o.name, p.region FROM f LEFT JOIN o ON f.k = o.k "
        "LEFT JOIN p ON o.p = p.p",
        left_join_of_a_left_join="f o p: SELECT f.id, x.name, x.region FROM f LEFT JOIN (SELECT o.k, o.name, "
        "p.region FROM o LEFT JOIN p ON o.p = p.p) AS x ON f.k = x.k",
        left_join_of_joins="f o p: SELECT f.id, x.name, x.region FROM f LEFT JOIN (SELECT o.k, o.name, "
        "p.region FROM o JOIN p ON o.p = p.p) AS x ON f.k = x.k",
        join_above_left_join="f o p: SELECT f.id, o.name, p.region FROM f LEFT JOIN o ON f.k = o.k "
        "JOIN p ON o.p <=> p.p",
        star="f o p e: SELECT f.id, o.name, p.region, e.note FROM f LEFT JOIN o ON f.k = o.k "
        "LEFT JOIN p ON f.b = p.p LEFT JOIN e ON f.k = e.k",
        scalars_by_key="f o: SELECT o.*, (SELECT max(f.b) FROM f WHERE f.k = o.k) AS m, (SELECT count(*) "
        "FROM f WHERE f.k = o.p) AS n FROM o",
        existence_of_two="f o p: SELECT f.id, f.g FROM f WHERE f.k IN (SELECT o.p FROM o) OR f.b IN "
        "(SELECT p.w FROM p)",
        exists_below_exists="f o p: SELECT * FROM p AS x WHERE EXISTS (SELECT 1 FROM o WHERE o.p = x.p AND "
        "NOT EXISTS (SELECT 1 FROM f WHERE f.k = o.k AND f.b > 2))",
        percentiles="f: SELECT k, percentile(a, 0.5) AS p, median(b) AS m, count(DISTINCT g, day) AS n, "
        "max(wide) AS w, bool_or(b > 4) AS o FROM f GROUP BY k",
        percentiles_of_doubles="f: SELECT k, percentile(d, 0.5) AS p, max(day) AS m FROM f GROUP BY k",
        groups_by_expression="f: SELECT k, date_trunc('MONTH', day) AS m, count(DISTINCT b) AS n FROM f "
        "GROUP BY k, date_trunc('MONTH', day)",
        groups_of_doubles="f: SELECT d, k, max(g) AS m FROM f GROUP BY d, k",
        groups_by_doubles_alone="f: SELECT d, max(g) AS m FROM f GROUP BY d",
        groups_by_expression_joined="f o: SELECT o.k, x.m, x.n FROM o LEFT JOIN (SELECT b + 1 AS m, "
        "count(DISTINCT g) AS n FROM f GROUP BY b + 1) AS x ON o.p = x.m",
        groups_without_keys="f p: SELECT p.p, x.m FROM p JOIN (SELECT max(b) AS m, count(DISTINCT k) AS n "
        "FROM f) AS x ON p.w < x.n",
        groups_of_groups="f: SELECT g, max(n) AS m FROM (SELECT g, k, count(DISTINCT b) AS n FROM f "
        "GROUP BY g, k) GROUP BY g",
        groups_of_a_left_join="f o: SELECT f.g, max(o.rate) AS m, count(DISTINCT o.name) AS n FROM f "
        "LEFT JOIN o ON f.k = o.k GROUP BY f.g",
        groups_by_the_right="f o: SELECT o.name, max(f.a) AS m FROM f LEFT JOIN o ON f.k = o.k "
        "GROUP BY o.name",
        groups_having="f o: SELECT o.k, x.m FROM o LEFT JOIN (SELECT k, max(b) AS m FROM f GROUP BY k HAVING "
        "count(DISTINCT g) > 1) AS x ON o.k = x.k",
        groups_rolled_up="f: SELECT g, k, count(DISTINCT b) AS n, max(a) AS m FROM f GROUP BY ROLLUP (g, k)",
        windows="f: SELECT id, k, rank() OVER w AS r, dense_rank() OVER w AS d, cume_dist() OVER w AS c, "
        "count(*) OVER (PARTITION BY k) AS n FROM f WINDOW w AS (PARTITION BY k ORDER BY b, day)",
        windows_of_two_keys="f: SELECT id, max(b) OVER (PARTITION BY k) AS m, count(*) OVER (PARTITION BY g) "
        "AS n FROM f",
        window_by_expression="f: SELECT id, k, rank() OVER (PARTITION BY k, year(day) ORDER BY a) AS r "
        "FROM f",
        window_by_expression_alone="f: SELECT id, rank() OVER (PARTITION BY year(day) ORDER BY a) AS r "
        "FROM f",
        window_by_doubles_alone="f: SELECT id, d, count(*) OVER (PARTITION BY d) AS n FROM f",
        window_by_doubles="f: SELECT id, d, count(*) OVER (PARTITION BY d, k) AS n FROM f",
        window_over_range="f: SELECT id, sum(a) OVER (PARTITION BY k ORDER BY b RANGE BETWEEN 1 PRECEDING "
        "AND CURRENT ROW) AS s FROM f",
        window_of_a_join="f o: SELECT f.id, o.name, rank() OVER (PARTITION BY o.name ORDER BY f.b, f.a) AS r "
        "FROM f JOIN o ON f.k = o.k",
        window_of_a_left_join="f o: SELECT f.id, o.name, count(*) OVER (PARTITION BY o.name) AS n FROM f "
        "LEFT JOIN o ON f.k = o.k",
        window_joined="f o: SELECT o.name, x.id, x.r FROM o JOIN (SELECT id, k, b, rank() OVER (PARTITION BY "
        "g ORDER BY b) AS r FROM f) AS x ON o.k = x.k AND x.r < 4",
        best_of_each="f o: SELECT o.name, x.id, x.b FROM o LEFT JOIN (SELECT * FROM (SELECT id, k, b, rank() "
        "OVER (PARTITION BY k ORDER BY b DESC) AS r FROM f) WHERE r = 1) AS x ON o.k = x.k",
        distinct_of_a_full_join="f o: SELECT DISTINCT f.g, o.name FROM f FULL JOIN o ON f.k = o.k",
        distinct_doubles="f: SELECT DISTINCT d, g FROM f",
        intersect="f o: SELECT k, g FROM f INTERSECT SELECT k, name FROM o",
        except_="f o: SELECT k, g FROM f EXCEPT SELECT k, name FROM o",
        intersect_all="f o: SELECT k FROM f INTERSECT ALL SELECT k FROM o",
        except_all="f o: SELECT k FROM f EXCEPT ALL SELECT k FROM o",
        union_joined="f o e: SELECT u.*, o.name FROM o LEFT JOIN (SELECT k, a FROM f UNION ALL SELECT k, a "
        "FROM e UNION ALL SELECT b, -a FROM f WHERE b > 1) AS u ON u.k = o.k",
        union_of_a_window="f o: SELECT k, count(*) OVER (PARTITION BY k) AS n FROM f UNION ALL SELECT k, 0 "
        "FROM o",
        first_rows_joined="f p: SELECT f.id, x.region FROM f JOIN (SELECT * FROM p ORDER BY p, region, w "
        "LIMIT 3) AS x ON f.k = x.p",
        generated_above="f o: SELECT x.id, w FROM (SELECT f.id, o.name FROM f LEFT JOIN o ON f.k = o.k) AS x "
        "LATERAL VIEW OUTER explode(split(x.name, '')) AS w",
        constants_joined="f: SELECT f.id, v.x FROM VALUES (1, 'x'), (2, 'y'), (NULL, 'z') AS v(k, x) "
        "FULL JOIN f ON f.k = v.k",
        three_levels="f o p: SELECT z.region, y.m, y.r FROM (SELECT x.region, x.p FROM p AS x WHERE NOT "
        "EXISTS (SELECT 1 FROM o WHERE o.p = x.p AND o.flag)) AS z LEFT JOIN (SELECT k, m, rank() OVER "
        "(PARTITION BY m ORDER BY k) AS r FROM (SELECT k, max(b) AS m FROM f GROUP BY k)) AS y ON y.k = z.p",
        types="t: SELECT x.*, y.n AS m FROM t AS x LEFT JOIN t AS y ON x.n = y.k AND x.s = y.s",
        grouped_by_all_types="t: SELECT s, day, at, ntz, flag, a, raw, count(DISTINCT k) AS n FROM t "
        "GROUP BY s, day, at, ntz, flag, a, raw",
    ),
)  # fmt: skip
"""Queries of which a stage has outer, semi or anti joins, windows or other aggregates below it."""
