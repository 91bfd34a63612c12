"""Queries of every shape over the sources `o` and `c`.

Each has the ways in which appended and changed rows of a source are applied.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = {
    "o": "id BIGINT, cid BIGINT, amt DECIMAL(10, 2), d DATE, s STRING, x DOUBLE",
    "c": "cid BIGINT, seg STRING, cap INT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedQuery:
    """A query, and the ways in which a refresh applies a change of one source.

    The ways are named as in `incremental.strategy.Way`. `appends` has the way for appended rows, `rows` the
    way for updated and deleted rows, provided that scalar subqueries return the same values. A query with
    stages has one way for all changes. `partition` is the table's partition column.
    """

    name: str
    sql: str
    appends: dict[str, str]
    rows: dict[str, str]
    partition: str | None = None


def _query(name: str, sql: str, *, partition: str | None = None, **ways: str) -> MaintainedQuery:
    """Return a query.

    *ways* has for each source the way for appended rows, a comma, and the way for changed rows.
    """
    appends, rows = ({source: way.split(", ")[part] for source, way in ways.items()} for part in (0, 1))
    return MaintainedQuery(name=name, sql=sql, appends=appends, rows=rows, partition=partition)


QUERIES = (
    _query("projection", "SELECT id, cid, amt * 2 AS a2 FROM o WHERE amt > 10", o="append, stages"),
    _query("duplicates", "SELECT cid, s FROM o", o="append, stages"),
    _query("join", "SELECT o.id, c.seg, o.amt FROM o JOIN c ON o.cid = c.cid",
        o="append, stages", c="append, stages"),
    _query("cross join", "SELECT o.id, c.seg FROM o, c WHERE o.id < c.cap",
        o="append, stages", c="append, stages"),
    _query("self join", "SELECT a.id AS i, b.id AS j FROM o a JOIN o b ON a.cid = b.cid AND a.id < b.id",
        o="append, stages"),
    _query("in from",
        "SELECT x.id, c.seg FROM (SELECT id, cid FROM o WHERE amt > 20) x, c WHERE x.cid = c.cid",
        o="append, stages", c="append, stages"),
    _query("with", "WITH w AS (SELECT id, cid FROM o) SELECT w.id, c.seg FROM w JOIN c ON c.cid = w.cid",
        o="append, stages", c="append, stages"),
    _query("with, twice",
        "WITH w AS (SELECT id, cid FROM o) SELECT a.id AS i, b.id AS j FROM w a JOIN w b ON a.cid = b.cid",
        o="append, stages"),
    _query("union all",
        "SELECT id, s FROM o WHERE amt < 30 UNION ALL SELECT cid, seg FROM c UNION ALL SELECT id, 'x' FROM o",
        o="append, stages", c="append, stages"),
    _query("union of groups",
        "SELECT id AS k, 1L AS n FROM o UNION ALL SELECT cid, count(*) FROM c GROUP BY cid",
        o="append, stages", c="stages, stages"),
    _query("union with one row", "SELECT id AS k FROM o UNION ALL SELECT count(*) FROM c",
        o="stages, stages", c="stages, stages"),
    _query("explode", "SELECT id, e FROM o LATERAL VIEW explode(split(s, '')) t AS e", o="append, stages"),
    _query("aggregate",
        "SELECT cid, count(*) n, sum(amt) s, min(id) mi, max(s) ma, bool_and(amt > 10) b, "
        "bool_or(amt > 50) e, count(s) cs, count(*) FILTER (WHERE amt > 3) f, bit_xor(id) bx "
        "FROM o GROUP BY cid",
        o="merge, stages"),
    _query("aggregate of all", "SELECT count(*) n, sum(amt) s, max(d) m FROM o", o="merge, recompute"),
    _query("aggregate by expression",
        "SELECT date_trunc('MONTH', d) m, cid % 3 k3, sum(amt) s FROM o "
        "GROUP BY date_trunc('MONTH', d), cid % 3", o="merge, merge"),
    _query("sum of doubles", "SELECT cid, sum(x) s FROM o GROUP BY cid", o="stages, stages"),
    _query("average",
        "SELECT cid, avg(amt) a, count(DISTINCT s) ds, percentile(amt, 0.5) p FROM o GROUP BY cid",
        o="stages, stages"),
    _query("try_sum", "SELECT cid, try_sum(amt) t FROM o GROUP BY cid", o="stages, stages"),
    _query("key not in the list", "SELECT sum(amt) s, count(*) n FROM o GROUP BY cid",
        o="stages, stages"),
    _query("computed from aggregates", "SELECT cid, sum(amt) / count(*) AS r FROM o GROUP BY cid",
        o="stages, stages"),
    _query("join and aggregate",
        "SELECT c.seg, sum(o.amt) s, count(*) n FROM o JOIN c ON o.cid = c.cid GROUP BY c.seg",
        o="stages, stages", c="stages, stages"),
    _query("aggregate of a union",
        "SELECT k, count(*) n FROM (SELECT cid AS k FROM o UNION ALL SELECT cid FROM c) GROUP BY k",
        o="stages, stages", c="stages, stages"),
    _query("having",
        "SELECT o.cid, c.seg, sum(o.amt) s FROM o JOIN c ON o.cid = c.cid "
        "GROUP BY o.cid, c.seg HAVING count(*) > 2", o="stages, stages", c="stages, stages"),
    _query("rollup", "SELECT cid % 2 p, s, sum(amt) t FROM o GROUP BY ROLLUP(cid % 2, s)",
        o="stages, stages"),
    _query("grouping sets", "SELECT cid, s, count(*) n FROM o GROUP BY GROUPING SETS ((cid), (cid, s))",
        o="stages, stages"),
    _query("left join", "SELECT o.id, o.cid, c.seg FROM o LEFT JOIN c ON o.cid = c.cid",
        o="append, stages", c="stages, stages"),
    _query("right join", "SELECT o.id, c.cid, c.seg FROM o RIGHT JOIN c ON o.cid = c.cid",
        o="stages, stages", c="append, stages"),
    _query("left join and aggregate",
        "SELECT c.cid, c.seg, count(o.id) n FROM c LEFT JOIN o ON o.cid = c.cid GROUP BY c.cid, c.seg",
        o="stages, stages", c="stages, stages"),
    _query("exists",
        "SELECT id, cid, amt FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.cid = o.cid AND c.cap > 2)",
        o="append, stages", c="stages, stages"),
    _query("exists or", "SELECT id, cid FROM o WHERE amt > 5 OR EXISTS (SELECT 1 FROM c WHERE c.cid = o.cid)",
        o="append, stages", c="stages, stages"),
    _query("not exists", "SELECT id, cid FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.cid = o.cid)",
        o="append, stages", c="stages, stages"),
    _query("in", "SELECT id, cid FROM o WHERE cid IN (SELECT cid FROM c)",
        o="append, stages", c="stages, stages"),
    _query("not in", "SELECT id, cid FROM o WHERE cid NOT IN (SELECT cid FROM c WHERE cid IS NOT NULL)",
        o="append, stages", c="stages, stages"),
    _query("full join", "SELECT coalesce(o.cid, c.cid) k, o.id, c.seg FROM o FULL JOIN c ON o.cid = c.cid",
        o="stages, stages", c="stages, stages"),
    _query("full join using", "SELECT cid, id, seg FROM o FULL JOIN c USING (cid)",
        o="stages, stages", c="stages, stages"),
    _query("window over a full join",
        "SELECT coalesce(o.cid, c.cid) k, count(*) OVER (PARTITION BY o.cid) n FROM o FULL "
        "JOIN c ON o.cid = c.cid", o="stages, stages", c="stages, stages"),
    _query("window",
        "SELECT id, cid, amt, row_number() OVER (PARTITION BY cid ORDER BY amt, id, s) rn, sum(amt) "
        "OVER (PARTITION BY cid) t FROM o", o="stages, stages"),
    _query("window of all", "SELECT id, count(*) OVER () n FROM o", o="recompute, recompute"),
    _query("first of each",
        "SELECT cid, id FROM (SELECT cid, id, row_number() OVER (PARTITION BY cid ORDER BY amt DESC, id) rn "
        "FROM o) WHERE rn = 1", o="stages, stages"),
    _query("distinct", "SELECT DISTINCT cid, s FROM o", o="stages, stages"),
    _query("union", "SELECT cid FROM o UNION SELECT cid FROM c", o="stages, stages", c="stages, stages"),
    _query("except", "SELECT cid FROM o EXCEPT SELECT cid FROM c", o="stages, stages", c="stages, stages"),
    _query("intersect", "SELECT cid FROM o INTERSECT SELECT cid FROM c",
        o="stages, stages", c="stages, stages"),
    _query("except all", "SELECT cid FROM o EXCEPT ALL SELECT cid FROM c",
        o="stages, stages", c="stages, stages"),
    _query("two levels",
        "SELECT cid, max(n) m FROM (SELECT cid, s, count(*) n FROM o GROUP BY cid, s) GROUP BY cid",
        o="stages, stages"),
    _query("histogram", "SELECT n, count(*) m FROM (SELECT cid, count(*) n FROM o GROUP BY cid) GROUP BY n",
        o="stages, stages"),
    _query("exploded groups",
        "SELECT cid, e FROM (SELECT cid, count(s) AS n FROM o GROUP BY cid) "
        "LATERAL VIEW explode(sequence(1, CAST(n AS INT) + 1)) t AS e", o="stages, stages"),
    _query("join with groups",
        "SELECT c.seg, g.n FROM c JOIN (SELECT cid, count(*) n FROM o GROUP BY cid) g ON g.cid = c.cid",
        o="stages, stages", c="stages, stages"),
    _query("groups joined",
        "SELECT g.cid, g.n, h.m FROM (SELECT cid, count(*) n FROM o GROUP BY cid) g LEFT "
        "JOIN (SELECT cid, max(cap) m FROM c GROUP BY cid) h ON g.cid = h.cid",
        o="stages, stages", c="stages, stages"),
    _query("scalar subquery", "SELECT id, amt / (SELECT max(cap) + 1 FROM c) r FROM o",
        o="append, stages", c="stages, stages"),
    _query("scalar subquery of another value", "SELECT id, amt + (SELECT count(*) FROM c) a FROM o",
        o="append, stages", c="stages, stages"),
    _query("scalar subquery of one value", "SELECT id, amt + (SELECT count(*) * 0 FROM c) a FROM o",
        o="append, stages", c="stages, stages"),
    _query("scalar subquery of the same table", "SELECT id, amt + (SELECT count(*) * 0 FROM o) a FROM o",
        o="stages, stages"),
    _query("scalar subquery below groups",
        "SELECT cid, count(*) n FROM o WHERE id >= (SELECT count(*) * 0 FROM o) GROUP BY cid",
        o="stages, stages"),
    _query("scalar subquery in a scalar subquery",
        "SELECT id, (SELECT min(cap) * 0 FROM c WHERE cap >= (SELECT min(amt) * 0 FROM o)) v FROM o",
        o="stages, stages", c="stages, stages"),
    _query("scalar subquery beside exists",
        "SELECT id, EXISTS (SELECT 1 FROM c WHERE cap > 9) e, (SELECT count(*) * 0 FROM c) z FROM o",
        o="append, stages", c="stages, stages"),
    _query("correlated scalar", "SELECT c.cid, c.seg, (SELECT sum(amt) FROM o WHERE o.cid = c.cid) s FROM c",
        o="stages, stages", c="append, stages"),
    _query("correlated count", "SELECT c.cid, c.seg, (SELECT count(*) FROM o WHERE o.cid = c.cid) s FROM c",
        o="stages, stages", c="append, stages"),
    _query("first rows",
        "SELECT amt, id, cid, s FROM o WHERE cid > 2 ORDER BY amt DESC NULLS LAST, id, s, cid LIMIT 6",
        o="stages, stages"),
    _query("first rows of a join",
        "SELECT c.seg, o.id, o.amt, o.s FROM o JOIN c ON o.cid = c.cid "
        "ORDER BY c.seg, o.amt DESC, o.id, o.s LIMIT 9", o="stages, stages", c="stages, stages"),
    _query("first rows of groups", "SELECT cid, count(*) n FROM o GROUP BY cid ORDER BY n, cid LIMIT 3",
        o="stages, stages"),
    _query("lateral", "SELECT o.id, t.seg FROM o, LATERAL (SELECT seg FROM c WHERE c.cid = o.cid) t",
        o="append, stages", c="append, stages"),
    _query("lateral with groups",
        "SELECT c.cid, c.seg, t.m FROM c LEFT JOIN LATERAL (SELECT max(amt) m FROM o WHERE o.cid = c.cid) t",
        o="stages, stages", c="stages, stages"),
    _query("lateral with limit",
        "SELECT c.cid, t.id FROM c, LATERAL (SELECT id FROM o WHERE o.cid = c.cid "
        "ORDER BY amt DESC, id LIMIT 2) t",
        o="stages, stages", c="append, stages"),
    _query("limit", "SELECT id FROM o ORDER BY amt DESC, id LIMIT 5", o="recompute, recompute"),
    _query("values", "SELECT o.id, v.y FROM o JOIN (VALUES (1, 2), (3, 4)) AS v(k, y) ON o.cid = v.k",
        o="append, stages"),
    _query("with, three times",
        "WITH w AS (SELECT cid, amt FROM o) SELECT a.cid, b.amt FROM w a JOIN w b ON a.cid = b.cid "
        "JOIN w d ON d.cid = b.cid", o="append, stages"),
    _query("with, twice in aggregates",
        "WITH w AS (SELECT cid, s, amt FROM o) SELECT cid, count(*) n FROM w GROUP BY cid UNION ALL "
        "SELECT cid, sum(amt) FROM w GROUP BY cid", o="stages, stages"),
    _query("with over with, twice",
        "WITH v (k, m) AS (SELECT cid, id FROM o -- rows\n), w AS (SELECT v.k, v.m, c.seg FROM v "
        "JOIN c ON c.cid = v.k) SELECT a.k, a.m, w.seg FROM w a, w WHERE a.k = w.k",
        o="append, stages", c="append, stages"),
    _query("groups of a with joined to it",
        "WITH w AS (SELECT cid, id, amt FROM o) SELECT w.cid, w.id, g.n FROM w JOIN (SELECT cid, count(*) n "
        "FROM w GROUP BY cid) g ON g.cid = w.cid", o="stages, stages"),
    _query("with of groups, twice",
        "WITH g AS (SELECT cid, count(*) n FROM o GROUP BY cid) SELECT a.cid, a.n, b.n AS m FROM g a LEFT "
        "JOIN g b ON a.cid = b.cid", o="stages, stages"),
    _query("with, in and exists",
        "WITH w AS (TABLE c) SELECT id, cid FROM o WHERE cid IN (SELECT cid FROM w) AND EXISTS (SELECT 1 "
        "FROM w WHERE w.cid = o.cid AND cap > 1)", o="append, stages", c="stages, stages"),
    _query("filter of a join", "SELECT o.id, c.seg FROM o, c WHERE o.cid = c.cid AND o.amt > c.cap",
        o="append, stages", c="append, stages"),
    _query("join on an expression", "SELECT o.id, c.seg FROM o JOIN c ON o.cid % 3 = c.cap",
        o="append, stages", c="append, stages"),
    _query("join of three",
        "SELECT a.id, b.id AS j, c.seg FROM o a JOIN o b ON a.id = b.cid JOIN c ON c.cid = b.cid",
        o="append, stages", c="append, stages"),
    _query("join using", "SELECT cid, id, seg FROM o JOIN c USING (cid)",
        o="append, stages", c="append, stages"),
    _query("natural join", "SELECT * FROM (SELECT cid, id FROM o) NATURAL JOIN (SELECT cid, seg FROM c)",
        o="append, stages", c="append, stages"),
    _query("join with nulls equal", "SELECT o.id, c.seg FROM o JOIN c ON o.cid <=> c.cid",
        o="append, stages", c="append, stages"),
    _query("two left joins",
        "SELECT o.id, o.cid, a.seg, b.cap FROM o LEFT JOIN c a ON a.cid = o.cid LEFT "
        "JOIN c b ON b.cid = o.cid AND b.cap > 1", o="append, stages", c="stages, stages"),
    _query("left join on more",
        "SELECT o.id, o.cid, c.seg FROM o LEFT JOIN c ON o.cid = c.cid AND o.amt > c.cap",
        o="append, stages", c="stages, stages"),
    _query("left join by range", "SELECT o.id, c.seg FROM o LEFT JOIN c ON o.amt < c.cap",
        o="append, stages", c="stages, stages"),
    _query("left join without a match",
        "SELECT o.cid, o.id FROM o LEFT JOIN c ON o.cid = c.cid WHERE c.cid IS NULL",
        o="append, stages", c="stages, stages"),
    _query("left join of a filter",
        "SELECT o.cid, o.id, d.seg FROM o LEFT JOIN (SELECT cid, seg FROM c "
        "WHERE cap > 1) d ON d.cid = o.cid", o="append, stages", c="stages, stages"),
    _query("semi join", "SELECT o.cid, o.s FROM o LEFT SEMI JOIN c ON o.cid = c.cid",
        o="append, stages", c="stages, stages"),
    _query("anti join", "SELECT o.cid, o.s FROM o LEFT ANTI JOIN c ON o.cid = c.cid",
        o="append, stages", c="stages, stages"),
    _query("not in of literals", "SELECT id, s FROM o WHERE cid NOT IN (1, 2, 3)", o="append, stages"),
    _query("in of an aggregate",
        "SELECT id, cid FROM o WHERE cid IN (SELECT cid FROM c GROUP BY cid HAVING count(*) > 1)",
        o="append, stages", c="stages, stages"),
    _query("exists of a join",
        "SELECT id, cid FROM o WHERE EXISTS (SELECT 1 FROM c JOIN o b ON b.cid = c.cid WHERE c.cid = o.cid)",
        o="stages, stages", c="stages, stages"),
    _query("in or in", "SELECT id, cid FROM o WHERE cid IN (SELECT cid FROM c) OR id IN (SELECT cap FROM c)",
        o="append, stages", c="stages, stages"),
    _query("case",
        "SELECT id, CASE WHEN amt > 20 THEN 'big' "
        "WHEN amt IS NULL THEN s ELSE 'small' END size, coalesce(s, '-') t FROM o", o="append, stages"),
    _query("constants", "SELECT 1 AS one, 'a' AS a FROM o", o="append, stages"),
    _query("distinct expression", "SELECT DISTINCT cid % 4 AS k, d FROM o", o="stages, stages"),
    _query("distinct of a join", "SELECT DISTINCT o.cid, c.seg FROM o JOIN c ON o.cid = c.cid",
        o="stages, stages", c="stages, stages"),
    _query("count distinct of all", "SELECT count(DISTINCT cid) n FROM o", o="stages, stages"),
    _query("distinct and filter",
        "SELECT cid, count(DISTINCT s) FILTER (WHERE amt > 10) n FROM o GROUP BY cid", o="stages, stages"),
    _query("sums of conditions",
        "SELECT cid, sum(CASE WHEN s = 'a' THEN amt ELSE 0 END) a, sum(if(s = 'b', 1, 0)) b FROM o "
        "GROUP BY cid", o="merge, merge"),
    _query("min and max of dates", "SELECT s, min(d) a, max(d) b, max(id) c FROM o GROUP BY s",
        o="merge, stages"),
    _query("group by number", "SELECT cid, d, count(*) n FROM o GROUP BY 1, 2", o="merge, merge"),
    _query("group by all", "SELECT cid, s, sum(amt) t FROM o GROUP BY ALL", o="merge, merge"),
    _query("keys without aggregates", "SELECT cid, s FROM o GROUP BY cid, s", o="stages, stages"),
    _query("key twice", "SELECT cid, cid AS again, count(*) n FROM o GROUP BY cid", o="merge, merge"),
    _query("key renamed above",
        "SELECT k, n FROM (SELECT cid AS k, count(*) n FROM o GROUP BY cid) WHERE k > 3", o="stages, stages"),
    _query("filter of groups by key", "SELECT cid, count(*) n FROM o GROUP BY cid HAVING cid > 2",
        o="stages, stages"),
    _query("median and mode",
        "SELECT cid, median(amt) m, stddev(x) d, count_if(amt > 5) c FROM o GROUP BY cid",
        o="stages, stages"),
    _query("any and every", "SELECT cid, every(amt > 1) e, some(amt > 9) s FROM o GROUP BY cid",
        o="merge, stages"),
    _query("bits", "SELECT cid, bit_and(id) a, bit_or(id) b, bit_xor(id) c FROM o GROUP BY cid",
        o="merge, stages"),
    _query("min by", "SELECT cid, min_by(id, id) a, max_by(s, s) b FROM o GROUP BY cid", o="stages, stages"),
    _query("cube", "SELECT s, d, count(*) n FROM o GROUP BY CUBE (s, d)", o="stages, stages"),
    _query("grouping", "SELECT s, grouping(s) g, sum(amt) t FROM o GROUP BY ROLLUP (s)", o="stages, stages"),
    _query("aggregate of a left join by left key",
        "SELECT o.cid, count(c.cid) n FROM o LEFT JOIN c ON c.cid = o.cid GROUP BY o.cid",
        o="stages, stages", c="stages, stages"),
    _query("aggregate below a join by key",
        "SELECT c.cid, c.seg, g.n FROM c JOIN (SELECT cid, count(*) n FROM o "
        "GROUP BY cid) g ON g.cid = c.cid", c="append, stages", o="stages, stages"),
    _query("aggregate below a left join by key",
        "SELECT c.cid, c.seg, g.n FROM c LEFT JOIN (SELECT cid, count(*) n FROM o "
        "GROUP BY cid) g ON g.cid = c.cid", c="append, stages", o="stages, stages"),
    _query("aggregate of distinct",
        "SELECT cid, count(*) n FROM (SELECT DISTINCT cid, s FROM o) GROUP BY cid", o="stages, stages"),
    _query("three levels",
        "SELECT cid, sum(m) t FROM (SELECT cid, s, max(n) m FROM (SELECT cid, s, d, count(*) n FROM o "
        "GROUP BY cid, s, d) GROUP BY cid, s) GROUP BY cid", o="stages, stages"),
    _query("aggregate of groups by part",
        "SELECT s, sum(n) t FROM (SELECT cid, s, count(*) n FROM o GROUP BY cid, s) GROUP BY s",
        o="stages, stages"),
    _query("window functions",
        "SELECT id, cid, lag(id) OVER w l, lead(id) OVER w e, rank() OVER w r, dense_rank() OVER w d FROM o "
        "WINDOW w AS (PARTITION BY cid ORDER BY id, amt, s, d)", o="stages, stages"),
    _query("running sum",
        "SELECT id, cid, sum(amt) OVER (PARTITION BY cid "
        "ORDER BY id, amt RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) r FROM o", o="stages, stages"),
    _query("two windows of one key",
        "SELECT id, cid, count(*) OVER (PARTITION BY cid) n, count(*) OVER (PARTITION BY cid, s) m FROM o",
        o="stages, stages"),
    _query("two windows of two keys",
        "SELECT id, cid, count(*) OVER (PARTITION BY cid) n, count(*) OVER (PARTITION BY s) m FROM o",
        o="stages, stages"),
    _query("window by expression", "SELECT id, cid, count(*) OVER (PARTITION BY cid % 2) n FROM o",
        o="stages, stages"),
    _query("window of a join",
        "SELECT o.id, o.cid, c.seg, count(*) OVER (PARTITION BY o.cid) n FROM o JOIN c ON o.cid = c.cid",
        o="stages, stages", c="stages, stages"),
    _query("window of groups",
        "SELECT cid, s, n, max(n) OVER (PARTITION BY cid) m FROM (SELECT cid, s, count(*) n "
        "FROM o GROUP BY cid, s)", o="stages, stages"),
    _query("last three of each",
        "SELECT cid, id, amt FROM (SELECT *, dense_rank() OVER (PARTITION BY cid ORDER BY id DESC) rn "
        "FROM o) WHERE rn <= 3", o="stages, stages"),
    _query("join with first of each",
        "SELECT c.cid, c.seg, f.id FROM c JOIN (SELECT cid, id, row_number() OVER (PARTITION BY cid "
        "ORDER BY id, amt, s, d) rn FROM o) f ON f.cid = c.cid AND f.rn = 1",
        c="append, stages", o="stages, stages"),
    _query("union of three", "SELECT cid FROM o UNION SELECT cid FROM c UNION SELECT cap FROM c",
        o="stages, stages", c="stages, stages"),
    _query("union of joins",
        "SELECT o.id, c.seg FROM o JOIN c ON o.cid = c.cid UNION ALL SELECT o.id, 'none' "
        "FROM o WHERE o.cid IS NULL", o="append, stages", c="append, stages"),
    _query("union of unlike groups",
        "SELECT cid, count(*) n FROM o GROUP BY cid UNION ALL SELECT cap, count(*) FROM c GROUP BY cap",
        o="stages, stages", c="stages, stages"),
    _query("union with constants",
        "SELECT id FROM o UNION ALL SELECT 7L UNION ALL SELECT * FROM VALUES (8L) t(x)", o="append, stages"),
    _query("intersect all", "SELECT cid FROM o INTERSECT ALL SELECT cid FROM c",
        o="stages, stages", c="stages, stages"),
    _query("except of two columns", "SELECT cid, s FROM o EXCEPT SELECT cid, seg FROM c",
        o="stages, stages", c="stages, stages"),
    _query("aggregate of except",
        "SELECT cid, count(*) n FROM (SELECT cid, s FROM o EXCEPT SELECT cid, seg FROM c) GROUP BY cid",
        o="stages, stages", c="stages, stages"),
    _query("posexplode outer", "SELECT id, p, e FROM o LATERAL VIEW OUTER posexplode(split(s, '')) t AS p, e",
        o="append, stages"),
    _query("explode and count",
        "SELECT e, count(*) n FROM (SELECT explode(split(s, '')) e FROM o) GROUP BY e", o="merge, merge"),
    _query("pivot", "SELECT * FROM (SELECT cid, s, amt FROM o) PIVOT (sum(amt) FOR s IN ('a', 'b'))",
        o="stages, stages"),
    _query("unpivot",
        "SELECT * FROM (SELECT id, cid, CAST(amt AS BIGINT) AS a FROM o) UNPIVOT (v FOR k IN (cid, a))",
        o="append, stages"),
    _query("scalar subquery in a filter", "SELECT id, cid FROM o WHERE amt > (SELECT avg(cap) FROM c)",
        o="append, stages", c="stages, stages"),
    _query("correlated max",
        "SELECT cid, seg FROM c WHERE cap >= (SELECT max(amt) FROM o WHERE o.cid = c.cid)",
        c="append, stages", o="stages, stages"),
    _query("order and limit of a part",
        "SELECT o.id, c.seg FROM o JOIN (SELECT * FROM c ORDER BY cid, seg, cap LIMIT 3) c ON c.cid = o.cid",
        o="append, stages", c="recompute, recompute"),
    _query("offset in a part",
        "SELECT o.id, c.seg FROM o JOIN (SELECT cid, seg FROM c ORDER BY cid LIMIT 3 OFFSET 1) c "
        "ON c.cid = o.cid",
        o="append, stages", c="recompute, recompute"),
    _query("left join of exploded rows",
        "SELECT c.cid, c.seg, t.e FROM c LEFT JOIN (SELECT o.cid, e FROM o "
        "LATERAL VIEW explode(split(s, '')) x AS e) t ON t.cid = c.cid",
        o="stages, stages", c="append, stages"),
    _query("order without limit", "SELECT id, cid FROM o ORDER BY amt", o="append, stages"),
    _query("with in a subquery, twice",
        "SELECT i, j FROM (WITH w AS (SELECT id, cid FROM o) SELECT a.id AS i, b.id AS j FROM w a "
        "JOIN w b ON a.cid = b.cid)", o="stages, stages"),
    _query("with in a subquery, twice, and another",
        "SELECT c.seg, i, j FROM c JOIN (WITH w AS (SELECT id, cid, s FROM o) "
        "SELECT a.id AS i, b.id AS j, a.cid FROM w a LEFT JOIN w b ON a.cid = b.cid AND a.s < b.s) v "
        "ON v.cid = c.cid",
        o="stages, stages", c="append, stages"),
)  # fmt: skip

PARTITIONED_QUERIES = (
    _query(
        "place in its part",
        "SELECT id, cid, amt, row_number() OVER (PARTITION BY cid ORDER BY amt, id, s) rn FROM o",
        partition="cid",
        o="partitions, partitions",
    ),
    _query(
        "rank over a join",
        "SELECT o.id, o.d, o.s, c.seg, rank() OVER (PARTITION BY o.d ORDER BY o.amt, o.id) r FROM o "
        "JOIN c ON o.cid = c.cid",
        partition="d",
        o="stages, stages",
        c="stages, stages",
    ),
    _query(
        "distinct by text",
        "SELECT s, count(DISTINCT cid) n, avg(amt) a FROM o GROUP BY s",
        partition="s",
        o="stages, stages",
    ),
    _query(
        "union by part",
        "SELECT cid, count(DISTINCT id) n FROM o GROUP BY cid UNION ALL "
        "SELECT cid, count(DISTINCT cap) FROM c GROUP BY cid",
        partition="cid",
        o="stages, stages",
        c="stages, stages",
    ),
    _query(
        "finer than its parts",
        "SELECT d, cid, count(DISTINCT id) n FROM o GROUP BY d, cid",
        partition="d",
        o="stages, stages",
    ),
)
