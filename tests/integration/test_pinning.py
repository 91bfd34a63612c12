from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from mt_core.model.partition import WHOLE
from mt_core.model.storage import MetadataChange
from mt_core.model.table import TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.jvm_objects import own_class, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries import source_versions
from mt_core.spark.queries.snapshot_cache import LIMIT_MS, NO_ANSWER, READS, outcomes, refreshed
from mt_core.spark.refresh.engine import spark_engine
from mt_core.tables.engine import (
    Query,
    SourceVector,
    StorageSpec,
    UnreadSources,
    Write,
)
from mt_core.tables.runs.decide import has_same
from tests.support.jvm_functions import java_function

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_numbers = count(1)

QUERIES = {
    "a plain table": "SELECT id, name FROM orders",
    "a full name": "SELECT o.id, o.name FROM lake.pins.orders AS o",
    "column qualifiers": "SELECT lake.pins.orders.id, pins.orders.name FROM lake.pins.orders",
    "back quotes with dots and blanks": "SELECT `odd.table x`.id, name FROM `odd.table x`",
    "unicode before a name": "SELECT '😀 — ñ' AS name, id FROM orders WHERE name <> '😀'",
    "comments": "SELECT id, /* FROM orders */ name -- FROM orders\nFROM /* here */ orders -- the end",
    "a self-join": "SELECT a.id, b.name FROM orders a JOIN orders b ON a.id = b.id + 1",
    "a CTE named like a table": (
        "WITH orders AS (SELECT id + 100 AS id, name FROM lake.pins.orders) SELECT id, name FROM orders"
    ),
    "nested shadowing": (
        "WITH t AS (SELECT id, name FROM orders) SELECT id, name FROM (WITH orders AS (SELECT id * 2 AS id, "
        "name FROM t) SELECT id, name FROM orders) UNION ALL SELECT id, name FROM orders"
    ),
    "subqueries": (
        "SELECT id, (SELECT max(name) FROM items) AS name FROM orders o WHERE id IN (SELECT id FROM items) "
        "AND EXISTS (SELECT 1 FROM orders i WHERE i.id = o.id) ORDER BY (SELECT max(id) FROM items), id"
    ),
    "TABLE t": "TABLE orders",
    "TABLE t in brackets": "SELECT id, name FROM (TABLE /* all */ orders) AS t",
    "a set operation": "SELECT id, name FROM orders UNION SELECT id, name FROM items",
    "pipe syntax": "FROM orders |> WHERE id > 1 |> SELECT id, name",
    "a lateral join": (
        "SELECT o.id, l.name FROM orders o, LATERAL (SELECT name FROM items i WHERE i.id = o.id) l"
    ),
    "a hint and an alias": "SELECT /*+ BROADCAST(i) */ o.id, i.name FROM orders o JOIN items i USING (id)",
    "a view": "SELECT id, name FROM big_orders",
    "a view qualified by its name": "SELECT big_orders.id, name FROM lake.pins.big_orders",
    "a view with an alias": "SELECT v.x AS id, v.y AS name FROM big_orders AS v(x, y)",
    "a nested view": "SELECT n, m FROM nested",
    "TABLE view": "TABLE big_orders",
    "a view of the session catalog": "SELECT id, name FROM spark_catalog.default.pins_view",
    "a name in the spelling of Spark's own catalog": "SELECT id, name FROM spark_catalog.Default.PINS_view",
    "a view below a CTE of the same name as its table": (
        "WITH orders AS (SELECT 7 AS id, 'cte' AS name) SELECT id, name FROM big_orders UNION ALL "
        "SELECT id, name FROM orders"
    ),
    "a CTE that is read twice": (
        "WITH w AS (SELECT id, name FROM orders -- all\n) SELECT w.id, v.name FROM w "
        "JOIN w AS v ON v.id = w.id"
    ),
    "CTEs that read each other and name their columns": (
        "WITH `a b` (x, y) AS (SELECT id, name FROM orders WHERE name <> ')'), v AS (TABLE `a b`), "
        "orders (SELECT x, y FROM v) SELECT orders.x AS id, v.y AS name FROM orders, v "
        "WHERE v.x = orders.x AND v.x IN (SELECT x FROM `a b`)"
    ),
    "a sampled CTE that is read twice": (
        "WITH w AS (SELECT id, name FROM orders) SELECT w.id, v.name FROM w TABLESAMPLE (100 PERCENT) "
        "JOIN w AS v ON v.id = w.id"
    ),
}


class Pins:
    """Tables, views and runs over them."""

    def __init__(self, driver: SparkDriver) -> None:
        self.session, self.engine = driver.session, spark_engine(SparkContexts(driver))
        self.zone = driver.settings.zone

    def sql(self, text: str) -> None:
        self.session.sql(text)

    def query(self, text: str) -> Query:
        return Query(text=text, catalog="lake", namespace=("pins",), zone=self.zone)

    def vector(self, text: str) -> SourceVector:
        return self.engine.sources.read_vector(self.query(text))

    def plain(self, text: str) -> list[tuple[object, ...]]:
        self.sql("USE lake.pins")
        return sorted(tuple(row) for row in self.session.sql(text).collect())

    def written(self, text: str, vector: SourceVector) -> list[tuple[object, ...]]:
        """Return the rows of a run at *vector*."""
        query, table_id = self.query(text), str(uuid4())
        columns = self.engine.queries.check_columns(_TARGET, self.engine.queries.analyse(query).columns)
        identifier = TableIdentifier("lake", ("pins",), f"mt_{next(_numbers)}")
        self.engine.storage.create_storage(
            StorageSpec(identifier=identifier, table_id=table_id, columns=columns)
        )
        main = self.engine.metadata.load(identifier).main
        assert main is not None
        summary = {"freshtable.run-id": "1", "freshtable.partitions": "null"}
        write = Write(
            job_id=uuid4().hex,
            table=identifier,
            base=main,
            query=query,
            columns=columns,
            vector=vector,
            scope=WHOLE,
            summary=summary,
            query_types={column.name: column.type for column in columns},
        )
        staged = self.engine.writes.write(write)
        change = MetadataChange(publish=staged.snapshot.snapshot_id, pending=staged.pending)
        self.engine.metadata.swap(identifier, staged.metadata, change)
        rows = self.session.sql(f"SELECT * FROM {identifier.sql}").collect()
        self.engine.storage.drop_storage(identifier, table_id, "")
        return sorted(tuple(row) for row in rows)


_TARGET = TableIdentifier("lake", ("pins",), "target")


@pytest.fixture
def pins(spark_driver: SparkDriver) -> Iterator[Pins]:
    pins = Pins(spark_driver)
    pins.sql("CREATE NAMESPACE IF NOT EXISTS lake.pins")
    for name in ("orders", "items", "`odd.table x`"):
        rows = "VALUES (1, 'a'), (2, 'b'), (3, 'c') AS rows (id, name)"
        pins.sql(f"CREATE TABLE lake.pins.{name} USING iceberg AS SELECT * FROM {rows}")
    pins.sql("USE lake.pins")
    pins.sql("CREATE VIEW lake.pins.big_orders AS SELECT id, name FROM orders WHERE id > 1 -- only big ones")
    pins.sql(
        "CREATE VIEW lake.pins.nested (n, m) AS WITH orders AS (SELECT * FROM big_orders) "
        "SELECT id, name FROM orders"
    )
    pins.sql("CREATE VIEW spark_catalog.default.pins_view AS SELECT * FROM lake.pins.orders")
    yield pins
    pins.sql("DROP VIEW spark_catalog.default.pins_view")
    for view in ("nested", "big_orders"):
        pins.sql(f"DROP VIEW IF EXISTS lake.pins.{view}")
    for name in ("orders", "items", "`odd.table x`"):
        pins.sql(f"DROP TABLE IF EXISTS lake.pins.{name}")
    pins.sql("USE lake.default")


@pytest.mark.slow
def test_a_run_reads_what_its_vector_says(pins: Pins) -> None:
    expected = {name: pins.plain(text) for name, text in QUERIES.items()}
    vectors = {name: pins.vector(text) for name, text in QUERIES.items()}
    for name in ("orders", "items", "`odd.table x`"):
        pins.sql(f"INSERT INTO lake.pins.{name} VALUES (2, 'zz'), (9, 'new')")

    rows = {name: pins.written(QUERIES[name], vector) for name, vector in vectors.items()}

    assert {name: vector.unpinnable for name, vector in vectors.items()} == dict.fromkeys(QUERIES)
    assert rows == expected
    assert [name for name, text in QUERIES.items() if pins.plain(text) == expected[name]] == []


def test_a_version_written_by_the_user_stays(pins: Pins) -> None:
    old = pins.vector("SELECT * FROM orders").sources[0].version
    assert old is not None
    pins.sql("INSERT INTO lake.pins.orders VALUES (4, 'd')")
    text = (
        f"SELECT coalesce(a.id, 0) AS id, b.name FROM orders VERSION AS OF {old['at']} a RIGHT "
        "JOIN orders b ON a.id + 1 = b.id"
    )
    expected, vector = pins.plain(text), pins.vector(text)
    pins.sql("INSERT INTO lake.pins.orders VALUES (5, 'e')")

    rows = pins.written(text, vector)

    assert vector.unpinnable is None
    assert rows == expected


def test_columns_that_change_without_a_commit_are_read_from_the_version_before(pins: Pins) -> None:
    text = "SELECT id, name, note, spare FROM orders o"
    pins.sql("ALTER TABLE lake.pins.orders ADD COLUMNS (other INT, gone STRING)")
    pins.sql("INSERT INTO lake.pins.orders VALUES (4, 'd', 7, 'x')")
    pins.sql("ALTER TABLE lake.pins.orders RENAME COLUMN other TO spare")
    pins.sql("ALTER TABLE lake.pins.orders ALTER COLUMN spare TYPE BIGINT")
    pins.sql("ALTER TABLE lake.pins.orders ALTER COLUMN spare FIRST")
    pins.sql("ALTER TABLE lake.pins.orders DROP COLUMN gone")
    pins.sql("ALTER TABLE lake.pins.orders ADD COLUMN note STRING")
    expected, vector = pins.plain(text), pins.vector(text)
    pins.sql("INSERT INTO lake.pins.orders (id, note) VALUES (5, 'n')")

    rows = pins.written(text, vector)

    assert vector.unpinnable is None
    assert rows == expected
    assert (4, "d", None, 7) in rows


@pytest.mark.slow
def test_columns_that_a_query_does_not_read_are_no_part_of_what_it_reads(pins: Pins) -> None:
    texts = (
        "SELECT id FROM orders",
        "SELECT v.name FROM spark_catalog.default.pins_view AS v",
        QUERIES["subqueries"],
    )
    before = [pins.vector(text) for text in texts]
    pins.sql("ALTER TABLE lake.pins.orders ADD COLUMN note STRING FIRST")
    pins.sql("ALTER TABLE lake.pins.orders RENAME COLUMN note TO remark")

    after = [pins.vector(text) for text in texts]

    assert [has_same(*pair) for pair in zip(before, after, strict=True)] == [True] * len(texts)
    assert [pins.written(text, vector) for text, vector in zip(texts, before, strict=True)] == [
        pins.plain(text) for text in texts
    ]


def test_columns_that_changed_are_not_pinned_where_a_query_names_them_by_the_full_name_of_their_table(
    pins: Pins,
) -> None:
    text = QUERIES["column qualifiers"]
    pins.sql("ALTER TABLE lake.pins.orders ADD COLUMN note STRING")

    vector = pins.vector(text)

    assert vector.unpinnable == "the columns of lake.pins.orders changed after its last commit"
    assert pins.written(text, vector) == pins.plain(text)


def test_a_column_dropped_and_added_again_is_another_version(pins: Pins) -> None:
    text = "SELECT id, name FROM orders"
    before = pins.vector(text)
    pins.sql("ALTER TABLE lake.pins.orders DROP COLUMN name")
    pins.sql("ALTER TABLE lake.pins.orders ADD COLUMN name STRING")

    vector = pins.vector(text)

    assert not has_same(vector, before)
    assert pins.written(text, vector) == [(1, None), (2, None), (3, None)]


def test_a_commit_after_a_new_column_makes_the_source_pinnable_again(pins: Pins) -> None:
    pins.sql("ALTER TABLE lake.pins.orders ADD COLUMN note STRING")
    pins.sql("INSERT INTO lake.pins.orders VALUES (4, 'd', 'n')")

    assert pins.vector("SELECT id, note FROM orders").unpinnable is None
    assert pins.vector("SELECT * FROM nested").unpinnable is None
    # The view of `SELECT *` has the columns it was created with.
    assert pins.vector("SELECT * FROM spark_catalog.default.pins_view").unpinnable is None


def test_a_session_view_made_in_another_zone_is_not_expanded(pins: Pins) -> None:
    text = "SELECT * FROM spark_catalog.default.pins_view"

    vector = pins.engine.sources.read_vector(Query(text=text, zone="Asia/Tokyo"))

    assert "pins_view was created with spark.sql.session.timeZone" in (vector.unpinnable or "")
    assert pins.vector(text).unpinnable is None


def test_a_replaced_view_is_another_version(pins: Pins) -> None:
    text = "SELECT * FROM big_orders"
    before = pins.vector(text)
    pins.sql(
        "CREATE OR REPLACE VIEW lake.pins.big_orders AS SELECT id, name FROM lake.pins.items WHERE id = 1"
    )

    vector = pins.vector(text)

    assert [source.name for source in before.sources] == ["lake.pins.orders", "lake.pins.big_orders"]
    assert [source.name for source in vector.sources] == ["lake.pins.items", "lake.pins.big_orders"]
    assert vector.sources[1] != before.sources[1]
    assert pins.written(text, vector) == [(1, "a")]


def test_a_source_made_again_under_its_name_is_another_version(pins: Pins) -> None:
    before = pins.vector("SELECT id FROM orders")
    pins.sql("DROP TABLE lake.pins.orders")
    pins.sql("CREATE TABLE lake.pins.orders (id INT, name STRING) USING iceberg")
    pins.sql("INSERT INTO lake.pins.orders VALUES (8, 'h')")

    vector = pins.vector("SELECT id FROM orders")

    assert vector.sources != before.sources
    assert pins.written("SELECT id FROM orders", vector) == [(8,)]


UNPINNABLE = {
    "SELECT * FROM IDENTIFIER('lake.pins.orders')": "IDENTIFIER() names what it reads only when it runs",
    "SELECT snapshot_id FROM lake.pins.orders.snapshots": (
        "lake.pins.orders.snapshots is not a table at one version"
    ),
    "SELECT * FROM lake.pins.orders.branch_main": (
        "lake.pins.orders.branch_main is not a table at one version"
    ),
    "SELECT * FROM orders VERSION AS OF 'main'": "lake.pins.orders AS OF main is not a table at one version",
    "SELECT * FROM big_orders TABLESAMPLE (100 PERCENT)": "its relations cannot be replaced in the text",
}


def test_what_cannot_be_pinned_says_why_and_has_versions_all_the_same(pins: Pins) -> None:
    vectors = {text: pins.vector(text) for text in UNPINNABLE}
    pins.sql("INSERT INTO lake.pins.orders VALUES (4, 'd')")

    assert {text: vector.unpinnable for text, vector in vectors.items()} == UNPINNABLE
    for text, vector in vectors.items():
        assert vector.sources[0].version is not None, text
        assert pins.vector(text).sources != vector.sources, text
        assert pins.written(text, vector) == pins.plain(text), text


def test_a_source_without_a_commit_is_a_version_without_rows(pins: Pins) -> None:
    pins.sql("DROP TABLE lake.pins.items")
    pins.sql("CREATE TABLE lake.pins.items (id INT, name STRING) USING iceberg")
    texts = (
        "SELECT * FROM items",
        "SELECT o.id, i.name FROM orders o LEFT JOIN items i ON i.id = o.id",
        "TABLE items",
    )
    vectors = [pins.vector(text) for text in texts]
    pins.sql("INSERT INTO lake.pins.items VALUES (1, 'late')")

    rows = [pins.written(text, vector) for text, vector in zip(texts, vectors, strict=True)]

    assert [vector.unpinnable for vector in vectors] == [None, None, None]
    assert rows == [[], [(1, None), (2, None), (3, None)], []]


def test_a_look_at_many_queries_tells_which_of_their_sources_changed(pins: Pins) -> None:
    queries = [
        pins.query(text)
        for text in (
            "SELECT id FROM orders",
            "SELECT i.id FROM items i JOIN orders o ON i.id = o.id",
            "SELECT id FROM big_orders",
            "SELECT id FROM `odd.table x`",
        )
    ]
    pins.engine.sources.source_fingerprints(queries)
    looks = [pins.engine.sources.source_fingerprints(queries)]

    def look_after(*statements: str) -> list[bool]:
        for statement in statements:
            pins.sql(statement)
        looks.append(pins.engine.sources.source_fingerprints(queries))
        return [before != after for before, after in zip(*looks[-2:], strict=True)]

    assert look_after() == [False, False, False, False]
    assert look_after("INSERT INTO lake.pins.items VALUES (9, 'z')") == [False, True, False, False]
    assert look_after("CREATE OR REPLACE VIEW lake.pins.big_orders AS SELECT id FROM lake.pins.orders") == [
        *(False, False, True, False)
    ]
    assert look_after(
        "DROP TABLE lake.pins.`odd.table x`", "INSERT INTO lake.pins.items VALUES (10, 'y')"
    ) == [*(False, True, False, True)]
    assert look_after("CREATE TABLE lake.pins.`odd.table x` (id INT, name STRING) USING iceberg") == [
        *(False, False, False, True)
    ]
    assert look_after("INSERT INTO lake.pins.orders VALUES (9, 'z')") == [True, True, True, False]


def test_sources_at_tags_are_waited_for_together(pins: Pins, monkeypatch: pytest.MonkeyPatch) -> None:
    pins.sql("ALTER TABLE lake.pins.orders CREATE TAG one")
    pins.sql("ALTER TABLE lake.pins.items CREATE TAG two")
    tags = "SELECT id FROM orders VERSION AS OF 'one'", "SELECT id FROM items VERSION AS OF 'two'"
    queries = [pins.query(text) for text in (*tags, "SELECT id FROM orders")]
    asked = list[int]()

    def counted(session: SparkSession, tables: Sequence[Any], wait_ms: int) -> Any:
        asked.append(len(tables))
        return refreshed(session, tables, wait_ms)

    pins.engine.sources.source_fingerprints(queries)
    monkeypatch.setattr(source_versions, "refreshed", counted)
    first = pins.engine.sources.source_fingerprints(queries)
    pins.sql("INSERT INTO lake.pins.orders VALUES (11, 'y')")
    pins.sql("INSERT INTO lake.pins.items VALUES (12, 'x')")
    pins.sql("ALTER TABLE lake.pins.items CREATE OR REPLACE TAG two")
    second = pins.engine.sources.source_fingerprints(queries)

    assert asked == [2, 2]
    assert [before != after for before, after in zip(first, second, strict=True)] == [False, True, True]


def read(
    session: SparkSession, objects: Any, function: Any, wait_ms: int, *, fresh: bool = False
) -> Sequence[str | UnreadSources]:
    return outcomes(own_class(session, READS).of(objects, function, wait_ms, LIMIT_MS, fresh))


def test_a_source_that_does_not_answer_holds_up_no_other_and_is_not_read_twice(pins: Pins) -> None:
    session = pins.session
    take = java_function(session, "java.util.concurrent.BlockingQueue.take")
    queues = [static_member(session, "java.util.concurrent.LinkedBlockingQueue")() for _ in range(3)]
    objects = static_member(session, "java.util.ArrayList")()
    for queue in queues:
        objects.add(queue)
    queues[0].put("first")
    queues[2].put("third")

    # Long enough for the two others on a busy machine.
    first = read(session, objects, take, 2000)
    for queue in queues:
        queue.put("next")
    deadline = time.monotonic() + 60
    while (again := read(session, objects, take, 1000)) != ["next"] * 3 and time.monotonic() < deadline:
        queues[0].put("next")
        queues[2].put("next")

    assert first == ["first", UnreadSources(reason=""), "third"]
    assert again == ["next"] * 3
    assert queues[1].isEmpty(), "only the one read that was under way has taken from it"


def test_a_source_that_does_not_answer_within_the_limit_says_so_and_is_interrupted(pins: Pins) -> None:
    session = pins.session
    take = java_function(session, "java.util.concurrent.BlockingQueue.take")
    objects = static_member(session, "java.util.ArrayList")()
    objects.add(static_member(session, "java.util.concurrent.LinkedBlockingQueue")())
    reads = own_class(session, READS)

    first = second = json.loads(reads.of(objects, take, 10, 0, False))
    deadline = time.monotonic() + 60
    while second == first and time.monotonic() < deadline:
        second = json.loads(reads.of(objects, take, 10, 0, False))

    assert first == [[None, f"{NO_ANSWER} 0 seconds"]]
    assert "InterruptedException" in second[0][1]


def test_what_an_earlier_look_read_too_late_is_no_answer_to_a_run(pins: Pins) -> None:
    session = pins.session
    take = java_function(session, "java.util.concurrent.BlockingQueue.take")
    queue = static_member(session, "java.util.concurrent.LinkedBlockingQueue")()
    objects = static_member(session, "java.util.ArrayList")()
    objects.add(queue)

    looks = [read(session, objects, take, 10)]
    queue.put("read by the look, after it had gone")
    queue.put("read by the run")
    runs = [read(session, objects, take, 60_000, fresh=True)]
    looks.append(read(session, objects, take, 10))
    with ThreadPoolExecutor(1) as thread:
        run = thread.submit(read, session, objects, take, 60_000, fresh=True)
        queue.put("read by the look, while the run waits for it")
        queue.put("read by the run")
        runs.append(run.result(60))

    assert looks == [[UnreadSources(reason="")]] * 2
    assert runs == [["read by the run"]] * 2
