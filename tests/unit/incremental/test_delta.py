from __future__ import annotations

from dataclasses import replace

from mt_core.incremental.delta import (
    DeltaTexts,
    NamedImages,
    Reading,
    appended_images,
    images_of,
    rows_after_change,
)
from mt_core.incremental.first_rows import FirstRows
from mt_core.incremental.shape import Occurrence, QueryShape

ORDERS, CUSTOMERS = Reading(name="o", source="o", alias=None), Reading(name="c", source="c", alias="c")
SHAPE = QueryShape(occurrences={0: Occurrence(), 1: Occurrence()}, lineage=(), keys=(), merge="")
IMAGES = NamedImages(removed="gone", added="come", both="touched")
APPENDED = "WITH ('start-snapshot-id' = '1', 'end-snapshot-id' = '2')"
JOIN = DeltaTexts(
    pieces=("SELECT * FROM ", ORDERS, " AS x JOIN ", CUSTOMERS),
    shape=SHAPE,
    old={"o": "1", "c": "5"},
    new={"o": "2", "c": "6"},
    changed=frozenset({0}),
)
BOTH = replace(JOIN, changed=frozenset({0, 1}), images={1: IMAGES})
SELF_JOIN = replace(
    JOIN,
    pieces=("SELECT * FROM ", ORDERS, " AS x JOIN ", ORDERS, " AS y"),
    changed=frozenset({0, 1}),
    images={0: IMAGES, 1: IMAGES},
)


def test_appended_rows_are_read_as_a_range_and_the_other_tables_at_a_version() -> None:
    assert JOIN.added() == f"(SELECT * FROM o {APPENDED} AS x JOIN c VERSION AS OF 6\n)"


def test_a_source_that_was_appended_to_joins_one_of_which_rows_changed() -> None:
    assert BOTH.added().split("\nUNION ALL\n") == [
        f"(SELECT * FROM o {APPENDED} AS x JOIN c VERSION AS OF 5\n)",
        "(SELECT * FROM o VERSION AS OF 2 AS x JOIN come AS `c`\n)",
    ]
    assert BOTH.removed() == "(SELECT * FROM o VERSION AS OF 2 AS x JOIN gone AS `c`\n)"


def test_a_table_joined_to_itself_is_read_at_its_new_version_before_the_change_and_the_old_one_after() -> (
    None
):
    assert SELF_JOIN.removed().split("\nUNION ALL\n") == [
        "(SELECT * FROM gone AS x JOIN o VERSION AS OF 1 AS y\n)",
        "(SELECT * FROM o VERSION AS OF 2 AS x JOIN gone AS y\n)",
    ]


def test_the_other_branches_of_a_union_read_nothing() -> None:
    shape = replace(SHAPE, occurrences={0: Occurrence(siblings=frozenset({1})), 1: Occurrence()})
    union = replace(
        JOIN, pieces=("TABLE ", ORDERS, " UNION ALL TABLE ", CUSTOMERS), shape=shape, images={0: IMAGES}
    )

    assert union.removed() == (
        "(TABLE gone UNION ALL TABLE (SELECT * FROM c VERSION AS OF 6 WHERE false) AS `c`\n)"
    )


def test_keys_are_those_of_rows_before_and_after_the_change() -> None:
    assert BOTH.keys(["k"], {0: ("cid",), 1: ("id",)}, (0,)) == (
        f"SELECT DISTINCT * FROM (SELECT `cid` AS `k` FROM o {APPENDED} UNION ALL SELECT `id` AS `k` "
        "FROM touched AS `c`)"
    )


def test_keys_that_the_query_gives_are_those_of_its_rows_before_and_after_the_change() -> None:
    texts = replace(JOIN, images={0: IMAGES})

    assert texts.keys(["k", "n"], {0: None}, (0,)) == (
        "SELECT DISTINCT * FROM (SELECT `k` FROM (SELECT * FROM touched AS x JOIN c VERSION AS OF 6\n"
        ") AS `_delta`(`k`, `n`))"
    )


def test_keys_are_computed_again_at_the_new_versions() -> None:
    assert JOIN.renewed(["a", "b"], (1,), "keys", "q.`b` IN (7)") == (
        "SELECT q.* FROM (SELECT * FROM o VERSION AS OF 2 AS x JOIN c VERSION AS OF 6\n) AS q(`a`, `b`) "
        "LEFT SEMI JOIN keys AS k ON q.`b` <=> k.`b` WHERE q.`b` IN (7)"
    )


def test_columns_that_are_not_read_are_null_in_the_images() -> None:
    unread = {"b": "decimal(9,2)"}

    changed = images_of("r", ["a", "b"], "n", few=False, unread=unread)
    appended = appended_images("r", ["a", "b"], few=True, unread=unread)

    fields = "`a`, CAST(NULL AS decimal(9,2)) AS `b`"
    assert changed.removed == (
        f"(SELECT {fields} FROM r LATERAL VIEW explode(array_repeat(0, -1 * `n`)) AS `_each` "
        "WHERE -1 * `n` > 0)"
    )
    assert (appended.added, appended.only_added) == (f"(SELECT {fields} FROM r)", True)


def test_rows_are_removed_only_by_readings_with_images_of_removed_rows() -> None:
    appended = replace(JOIN, images={0: appended_images("r", ["a"], few=True)})

    assert [JOIN.removes, appended.removes, replace(JOIN, images={0: IMAGES}).removes] == [False, False, True]


def test_only_rows_with_removed_values_are_counted_in_the_table() -> None:
    text = rows_after_change("t", ["a", "b"], "net", "n")

    assert (
        "(SELECT `a`, `b` FROM t AS q LEFT SEMI JOIN (SELECT * FROM net WHERE `n` < 0) AS k "
        "ON q.`a` <=> k.`a` AND q.`b` <=> k.`b` WHERE true) UNION ALL SELECT `a`, `b`, `n` FROM net"
    ) in text


def test_aggregates_of_removed_rows_are_taken_out_of_groups_in_which_those_of_added_rows_differ() -> None:
    texts = DeltaTexts(
        pieces=("SELECT k, count(*), sum(v) FROM ", ORDERS, " GROUP BY k"),
        shape=replace(SHAPE, row_count=1),
        old={"o": "1"},
        new={"o": "2"},
        changed=frozenset({0}),
        images={0: IMAGES},
    )

    assert texts.subtracted(["k", "n", "t"], (None, "Count", "Sum"), "doubt") == (
        "SELECT d.`k`, sum(CASE WHEN d.doubt_sign > 0 THEN d.`n` ELSE -d.`n` END) AS `n`, "
        "sum(CASE WHEN d.doubt_sign > 0 THEN d.`t` ELSE -d.`t` END) AS `t`, sum(CASE WHEN d.doubt_sign < 0 "
        "THEN d.`t` END) IS NOT NULL AND sum(CASE WHEN d.doubt_sign > 0 THEN d.`t` END) IS NULL AS doubt "
        "FROM (SELECT *, 1 FROM ((SELECT k, count(*), sum(v) FROM come GROUP BY k\n)) UNION ALL SELECT *, "
        "-1 FROM ((SELECT k, count(*), sum(v) FROM gone GROUP BY k\n))) AS d(`k`, `n`, `t`, doubt_sign) "
        "GROUP BY d.`k` HAVING NOT (min(d.doubt_sign) < 0 AND max(d.doubt_sign) > 0 AND sum(CASE "
        "WHEN d.doubt_sign < 0 THEN d.`n` END) <=> sum(CASE WHEN d.doubt_sign > 0 THEN d.`n` END) AND "
        "sum(CASE WHEN d.doubt_sign < 0 THEN d.`t` END) <=> sum(CASE WHEN d.doubt_sign > 0 THEN d.`t` END))"
    )
    assert texts.merged("mt", ["k", "n", "t"], (None, "Count", "Sum"), "delta") == (
        "SELECT * FROM (SELECT `k`, sum(`n`) AS `n`, sum(`t`) AS `t` FROM (SELECT `k`, `n`, `t` FROM mt "
        "UNION ALL SELECT * FROM delta AS `_delta`(`k`, `n`, `t`)) GROUP BY `k`) WHERE `n` <> 0"
    )


def test_few_rows_at_hand_are_grouped_in_one_part() -> None:
    assert JOIN.merged("mt", ["k", "n"], (None, "Count"), "delta", few=True) == (
        "SELECT `k`, sum(`n`) AS `n` FROM (SELECT /*+ COALESCE(1) */ * FROM (SELECT `k`, `n` FROM mt "
        "UNION ALL SELECT * FROM delta AS `_delta`(`k`, `n`))) GROUP BY `k`"
    )


def test_a_group_that_lost_rows_and_has_none_that_came_is_in_doubt_where_no_column_counts_its_rows() -> None:
    texts = replace(JOIN, images={0: IMAGES})

    assert "max(d.doubt_sign) > 0 AS doubt" in texts.subtracted(["k", "n"], (None, "Count"), "doubt")


def test_candidates_for_the_first_rows_are_those_of_the_table_and_of_the_query_over_appended_rows() -> None:
    first = FirstRows(
        rows=2, order=((1, "DESC NULLS LAST"), (0, "ASC NULLS FIRST")), reads=frozenset({0}), total=True
    )

    assert JOIN.candidates("t", ("a", "b"), first) == (
        f"SELECT `a`, `b` FROM (SELECT `a`, `b` FROM t UNION ALL SELECT * FROM ({JOIN.added()}) AS "
        "`_delta`(`a`, `b`)) ORDER BY `b` DESC NULLS LAST, `a` ASC NULLS FIRST LIMIT 3"
    )
