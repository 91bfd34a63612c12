"""What readers see while changes are applied to tables under them:
the rows of the query at one source version after another.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from mt_core.base.identifiers import quote
from tests.depth import DEPTH, rounds
from tests.integration.maintained_world import take_tables_for_large
from tests.integration.refresh_world import RefreshWorld, Row, in_order
from tests.integration.refresh_world import world as world
from tests.support.gateway.own_process import WAIT_S

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900 * DEPTH)]

KEYS, ROUNDS = 250, rounds(4, 10)
QUERIES = {
    "dear": "SELECT k, v FROM o WHERE v > 20",
    "totals": "SELECT k % 7 AS part, count(*) AS n, sum(v) AS v FROM o GROUP BY k % 7",
}
WAYS = {"dear": "stages", "totals": "merge"}
# Deletes, updates and inserts rows in one commit, and gives each table other rows each time.
CHANGE = (
    "MERGE INTO o USING (SELECT CAST(id AS INT) AS k FROM range({keys})) n ON o.k = n.k "
    "WHEN MATCHED AND o.k % 11 = {number} % 11 THEN DELETE WHEN MATCHED AND o.k % 5 = {number} % 5 THEN "
    "UPDATE SET v = v + 100 WHEN NOT MATCHED AND n.k % 3 = {number} % 3 THEN INSERT (k, v) VALUES (n.k, 30)"
)
STORED = {
    "rewritten": "",
    "delete files": "",
    "deletion vectors": ", 'format-version' = '3'",
    "equality deletes": ", 'write.upsert' = 'equality-delete'",
}
"""Ways to change a table, with the options that lead to each."""
Views = dict[str, list[list[Row]]]
Read = Callable[[str], list[Row]]


@pytest.mark.parametrize("stored", list(STORED) if DEPTH > 1 else ["delete files"])
def test_readers_see_the_rows_of_one_version_after_another_while_changes_are_applied(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    take_tables_for_large(monkeypatch, stored != "rewritten", files=False)
    world.spark(
        "CREATE TABLE o USING iceberg AS SELECT CAST(id AS INT) AS k, CAST(id % 40 AS INT) AS v "
        f"FROM range({KEYS})"
    )
    for name, query in QUERIES.items():
        world.create(name, query, clauses=f"WITH ('refresh.strategy' = 'incremental'{STORED[stored]})")
    states = {name: [world.rows(name)] for name in QUERIES}
    readers = (
        [by_spark(world)]
        if stored in ("deletion vectors", "equality deletes")
        else [by_spark(world), outside(world)]
    )

    with ExitStack() as stack:
        views = [stack.enter_context(reading(read)) for read in readers]
        for number in range(ROUNDS):
            world.spark(CHANGE.format(keys=KEYS, number=number))
            for name, query in QUERIES.items():
                states[name].append(world.plain(query))
            run = world.tick("dear")
            assert {"dear": run.strategy, "totals": world.tick("totals", world.clock.now()).strategy} == WAYS

    for seen in views:
        check(seen, states)
    for name in QUERIES:
        deletes = world.plain(f"SELECT * FROM lake.{world.namespace}.{name}.delete_files")
        assert (deletes == []) is (stored == "rewritten"), name


def check(views: Views, states: Mapping[str, list[list[Row]]]) -> None:
    """Fail unless each view of a table is one of its states, none is older than the one before,
    and the last is the newest.
    """
    for name, seen in views.items():
        place = 0
        for rows in seen:
            assert rows in states[name][place:], f"{name} was seen partial, mixed or as it was before: {rows}"
            place = states[name].index(rows, place)
        assert place == ROUNDS
        assert len({str(rows) for rows in seen}) > 2, f"a reader saw next to nothing of {name}"


def by_spark(world: RefreshWorld) -> Read:
    session = world.session.newSession()
    session.sql(f"USE lake.{world.namespace}")
    return lambda name: in_order(tuple(row) for row in session.table(quote(name)).collect())


def outside(world: RefreshWorld) -> Read:
    """Return what reads a table without Spark."""
    uri = str(world.session.conf.get("spark.sql.catalog.lake.uri"))
    database = re.fullmatch(r"jdbc:sqlite:file:([^?]*).*", uri)
    if database is None:
        pytest.skip("the catalog of this run is no SQLite file")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{database[1]}", init_catalog_tables="false")

    def read(name: str) -> list[Row]:
        rows = catalog.load_table(f"{world.namespace}.{name}").scan().to_arrow().to_pylist()
        return in_order(tuple(row.values()) for row in rows)

    return read


@contextmanager
def reading(read: Read) -> Iterator[Views]:
    """Read the tables again and again in a thread, and once more at the end of the block."""
    views: Views = {name: [] for name in QUERIES}
    ended = threading.Event()

    def run() -> None:
        is_last = False
        while not is_last:
            is_last = ended.is_set()
            for name in QUERIES:
                views[name].append(read(name))

    with ThreadPoolExecutor(1, "reader") as pool:
        read_all = pool.submit(run)
        try:
            yield views
        finally:
            ended.set()
        read_all.result(WAIT_S)
