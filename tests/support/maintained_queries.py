# ruff: noqa: E501 (a query is read in one line)
"""Queries of every shape over the sources `o` and `c`, each with how appended and how changed rows of one source are applied."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = {
    "o": "id BIGINT, cid BIGINT, amt DECIMAL(10, 2), d DATE, s STRING, x DOUBLE",
    "c": "cid BIGINT, seg STRING, cap INT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedQuery:
    """A query with how a refresh applies a change of one source alone, in the words of `maintenance.strategy.Way`.

    `appends` has it for appended rows, `rows` for updated and deleted ones; `partition` is the column by which the table is
    partitioned.
    """

    name: str
    sql: str
    appends: dict[str, str]
    rows: dict[str, str]
    partition: str | None = None


def _query(name: str, sql: str, *, partition: str | None = None, **ways: str) -> MaintainedQuery:
    """Return a query; *ways* has for each source the way for appended rows, a comma, and the one for changed rows."""
    appends, rows = ({source: way.split(", ")[part] for source, way in ways.items()} for part in (0, 1))
    return MaintainedQuery(name=name, sql=sql, appends=appends, rows=rows, partition=partition)


QUERIES = (
    _query("projection", "SELECT id, cid, amt * 2 AS a2 FROM o WHERE amt > 10", o="append, signed"),
    _query("duplicates", "SELECT cid, s FROM o", o="append, signed"),
    _query("join", "SELECT o.id, c.seg, o.amt FROM o JOIN c ON o.cid = c.cid", o="append, signed", c="append, signed"),
    _query("cross join", "SELECT o.id, c.seg FROM o, c WHERE o.id < c.cap", o="append, signed", c="append, signed"),
    _query("self join", "SELECT a.id AS i, b.id AS j FROM o a JOIN o b ON a.cid = b.cid AND a.id < b.id", o="append, signed"),
    _query("in from", "SELECT x.id, c.seg FROM (SELECT id, cid FROM o WHERE amt > 20) x, c WHERE x.cid = c.cid", o="append, signed", c="append, signed"),
    _query("with", "WITH w AS (SELECT id, cid FROM o) SELECT w.id, c.seg FROM w JOIN c ON c.cid = w.cid", o="append, signed", c="append, signed"),
    _query("with, twice", "WITH w AS (SELECT id, cid FROM o) SELECT a.id AS i, b.id AS j FROM w a JOIN w b ON a.cid = b.cid", o="recompute, recompute"),
    _query("union all", "SELECT id, s FROM o WHERE amt < 30 UNION ALL SELECT cid, seg FROM c UNION ALL SELECT id, 'x' FROM o", o="append, signed", c="append, signed"),
    _query("union of groups", "SELECT id AS k, 1L AS n FROM o UNION ALL SELECT cid, count(*) FROM c GROUP BY cid", o="append, signed", c="keys, keys"),
    _query("union with one row", "SELECT id AS k FROM o UNION ALL SELECT count(*) FROM c", o="keys, keys", c="recompute, recompute"),
    _query("explode", "SELECT id, e FROM o LATERAL VIEW explode(split(s, '')) t AS e", o="append, signed"),
    _query("aggregate", "SELECT cid, count(*) n, sum(amt) s, min(id) mi, max(s) ma, bool_and(amt > 10) b, bool_or(amt > 50) e, "
           "count(s) cs, count(*) FILTER (WHERE amt > 3) f, bit_xor(id) bx FROM o GROUP BY cid", o="merge, keys"),
    _query("aggregate of all", "SELECT count(*) n, sum(amt) s, max(d) m FROM o", o="merge, recompute"),
    _query("aggregate by expression", "SELECT date_trunc('MONTH', d) m, cid % 3 k3, sum(amt) s FROM o GROUP BY date_trunc('MONTH', d), cid % 3", o="merge, keys"),
    _query("sum of doubles", "SELECT cid, sum(x) s FROM o GROUP BY cid", o="keys, keys"),
    _query("average", "SELECT cid, avg(amt) a, count(DISTINCT s) ds, percentile(amt, 0.5) p FROM o GROUP BY cid", o="keys, keys"),
    _query("try_sum", "SELECT cid, try_sum(amt) t FROM o GROUP BY cid", o="keys, keys"),
    _query("key not in the list", "SELECT sum(amt) s, count(*) n FROM o GROUP BY cid", o="recompute, recompute"),
    _query("computed from aggregates", "SELECT cid, sum(amt) / count(*) AS r FROM o GROUP BY cid", o="keys, keys"),
    _query("join and aggregate", "SELECT c.seg, sum(o.amt) s, count(*) n FROM o JOIN c ON o.cid = c.cid GROUP BY c.seg", o="merge, keys", c="merge, keys"),
    _query("aggregate of a union", "SELECT k, count(*) n FROM (SELECT cid AS k FROM o UNION ALL SELECT cid FROM c) GROUP BY k", o="merge, keys", c="merge, keys"),
    _query("having", "SELECT o.cid, c.seg, sum(o.amt) s FROM o JOIN c ON o.cid = c.cid GROUP BY o.cid, c.seg HAVING count(*) > 2", o="keys, keys", c="keys, keys"),
    _query("rollup", "SELECT cid % 2 p, s, sum(amt) t FROM o GROUP BY ROLLUP(cid % 2, s)", o="keys, keys"),
    _query("grouping sets", "SELECT cid, s, count(*) n FROM o GROUP BY GROUPING SETS ((cid), (cid, s))", o="keys, keys"),
    _query("left join", "SELECT o.id, o.cid, c.seg FROM o LEFT JOIN c ON o.cid = c.cid", o="append, signed", c="keys, keys"),
    _query("right join", "SELECT o.id, c.cid, c.seg FROM o RIGHT JOIN c ON o.cid = c.cid", o="keys, keys", c="append, signed"),
    _query("left join and aggregate", "SELECT c.cid, c.seg, count(o.id) n FROM c LEFT JOIN o ON o.cid = c.cid GROUP BY c.cid, c.seg", o="keys, keys", c="merge, keys"),
    _query("exists", "SELECT id, cid, amt FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.cid = o.cid AND c.cap > 2)", o="append, signed", c="keys, keys"),
    _query("exists or", "SELECT id, cid FROM o WHERE amt > 5 OR EXISTS (SELECT 1 FROM c WHERE c.cid = o.cid)", o="append, signed", c="keys, keys"),
    _query("not exists", "SELECT id, cid FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.cid = o.cid)", o="append, signed", c="keys, keys"),
    _query("in", "SELECT id, cid FROM o WHERE cid IN (SELECT cid FROM c)", o="append, signed", c="keys, keys"),
    _query("not in", "SELECT id, cid FROM o WHERE cid NOT IN (SELECT cid FROM c WHERE cid IS NOT NULL)", o="append, signed", c="recompute, recompute"),
    _query("full join", "SELECT coalesce(o.cid, c.cid) k, o.id, c.seg FROM o FULL JOIN c ON o.cid = c.cid", o="keys, keys", c="keys, keys"),
    _query("full join using", "SELECT cid, id, seg FROM o FULL JOIN c USING (cid)", o="keys, keys", c="keys, keys"),
    _query("window over a full join", "SELECT coalesce(o.cid, c.cid) k, count(*) OVER (PARTITION BY o.cid) n FROM o FULL JOIN c ON o.cid = c.cid", o="recompute, recompute", c="recompute, recompute"),
    _query("window", "SELECT id, cid, amt, row_number() OVER (PARTITION BY cid ORDER BY amt, id, s) rn, sum(amt) OVER (PARTITION BY cid) t FROM o", o="keys, keys"),
    _query("window of all", "SELECT id, count(*) OVER () n FROM o", o="recompute, recompute"),
    _query("first of each", "SELECT cid, id FROM (SELECT cid, id, row_number() OVER (PARTITION BY cid ORDER BY amt DESC, id) rn FROM o) WHERE rn = 1", o="keys, keys"),
    _query("distinct", "SELECT DISTINCT cid, s FROM o", o="merge, keys"),
    _query("union", "SELECT cid FROM o UNION SELECT cid FROM c", o="merge, keys", c="merge, keys"),
    _query("except", "SELECT cid FROM o EXCEPT SELECT cid FROM c", o="merge, keys", c="keys, keys"),
    _query("intersect", "SELECT cid FROM o INTERSECT SELECT cid FROM c", o="merge, keys", c="keys, keys"),
    _query("except all", "SELECT cid FROM o EXCEPT ALL SELECT cid FROM c", o="keys, keys", c="keys, keys"),
    _query("two levels", "SELECT cid, max(n) m FROM (SELECT cid, s, count(*) n FROM o GROUP BY cid, s) GROUP BY cid", o="keys, keys"),
    _query("histogram", "SELECT n, count(*) m FROM (SELECT cid, count(*) n FROM o GROUP BY cid) GROUP BY n", o="recompute, recompute"),
    _query("exploded groups", "SELECT cid, e FROM (SELECT cid, count(s) AS n FROM o GROUP BY cid) LATERAL VIEW explode(sequence(1, CAST(n AS INT) + 1)) t AS e", o="keys, keys"),
    _query("join with groups", "SELECT c.seg, g.n FROM c JOIN (SELECT cid, count(*) n FROM o GROUP BY cid) g ON g.cid = c.cid", o="recompute, recompute", c="append, signed"),
    _query("groups joined", "SELECT g.cid, g.n, h.m FROM (SELECT cid, count(*) n FROM o GROUP BY cid) g LEFT JOIN (SELECT cid, max(cap) m FROM c GROUP BY cid) h ON g.cid = h.cid", o="keys, keys", c="keys, keys"),
    _query("scalar subquery", "SELECT id, amt / (SELECT max(cap) + 1 FROM c) r FROM o", o="append, signed", c="recompute, recompute"),
    _query("correlated scalar", "SELECT c.cid, c.seg, (SELECT sum(amt) FROM o WHERE o.cid = c.cid) s FROM c", o="keys, keys", c="append, signed"),
    _query("correlated count", "SELECT c.cid, c.seg, (SELECT count(*) FROM o WHERE o.cid = c.cid) s FROM c", o="keys, keys", c="append, signed"),
    _query("lateral", "SELECT o.id, t.seg FROM o, LATERAL (SELECT seg FROM c WHERE c.cid = o.cid) t", o="recompute, recompute", c="recompute, recompute"),
    _query("limit", "SELECT id FROM o ORDER BY amt DESC, id LIMIT 5", o="recompute, recompute"),
    _query("values", "SELECT o.id, v.y FROM o JOIN (VALUES (1, 2), (3, 4)) AS v(k, y) ON o.cid = v.k", o="append, signed"),
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
        "SELECT o.id, o.d, o.s, c.seg, rank() OVER (PARTITION BY o.d ORDER BY o.amt, o.id) r FROM o JOIN c ON o.cid = c.cid",
        partition="d",
        o="partitions, partitions",
        c="partitions, partitions",
    ),
    _query(
        "distinct by text",
        "SELECT s, count(DISTINCT cid) n, avg(amt) a FROM o GROUP BY s",
        partition="s",
        o="partitions, partitions",
    ),
    _query(
        "union by part",
        "SELECT cid, count(DISTINCT id) n FROM o GROUP BY cid UNION ALL SELECT cid, count(DISTINCT cap) FROM c GROUP BY cid",
        partition="cid",
        o="partitions, partitions",
        c="partitions, partitions",
    ),
    _query(
        "finer than its parts",
        "SELECT d, cid, count(DISTINCT id) n FROM o GROUP BY d, cid",
        partition="d",
        o="keys, keys",
    ),
)
