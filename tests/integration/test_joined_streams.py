"""Joins of streams in SQL on a real Spark: which operator each statement gets, and jobs that run them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.stream import SourceHint, StreamDefinition, StreamMember
from mt_core.plans.durations import FOR_EVER
from mt_core.plans.operators import ADDS, RowKind
from mt_core.sessions.ports import ResultRows
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.checkpoints import LAYOUT
from mt_core.sql.parser import ReadStatement
from tests.integration.operator_stream import OperatorStream, statement
from tests.integration.stream_world import StreamWorld
from tests.support.stream_engine_contract import WAIT_S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
TIMED = (
    "CREATE TEMPORARY TABLE {} (n INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND) "
    "WITH ('connector' = 'datagen', 'rows-per-second' = '5')"
)
EVENTS = tuple(TIMED.format(name) for name in ("one", "two"))


class World(StreamWorld):
    """Orders and their parcels, and a sink of both."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        super().__init__(driver, folder)
        for text in (
            "CREATE TABLE orders (id INT, item STRING)",
            "CREATE TABLE parcels (id INT, place STRING)",
            "CREATE TABLE sent (item STRING, place STRING)",
        ):
            self.sql(text)

    def operators(
        self, query: str, temporary: Sequence[str] = (), settings: Mapping[str, str] | None = None
    ) -> Changelog:
        """Return the changelog of a query, as a job would have it."""
        member = StreamMember(text=ReadStatement(f"INSERT INTO sent {query}").text)
        return self.changelog(member, temporary=tuple(temporary), settings=settings or {})

    def changelog(self, member: StreamMember, **changes: object) -> Changelog:
        definition = self.definition(members=(member,), **changes)
        sessions = self.engine._sessions
        with sessions.passing(definition) as session:
            return sessions.member(session, member, definition.settings).changelog({})

    def job(self, query: str, **changes: object) -> tuple[str, StreamDefinition]:
        return self.start(ReadStatement(f"INSERT INTO sent {query}").text, **changes)

    def prepared(self, query: str) -> tuple[str, StreamDefinition]:
        """Return a job that has not started."""
        definition = self.definition("prepared", f"INSERT INTO sent {query}")
        return "prepared", self.engine.prepare(definition, "prepared")

    def wait_sent(self, *expected: tuple[str, str]) -> None:
        self.wait(lambda: len(self.sql("SELECT * FROM sent")) >= len(expected))
        assert sorted(tuple(row) for row in self.sql("SELECT * FROM sent")) == sorted(expected)


def wait_rows(rows: ResultRows, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while rows.available(0, count, 1.0) < count:
        assert rows.running, rows.page(0, count)
        assert time.monotonic() < deadline, "the rows did not come"


@pytest.fixture
def world(module_driver: SparkDriver, tmp_path: Path) -> Iterator[World]:
    world = World(module_driver, tmp_path)
    yield world
    world.stop_all()


@pytest.fixture(scope="module")
def tables(module_driver: SparkDriver, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world of which all tests ask for operators alone: nothing starts there, and no table changes."""
    return World(module_driver, tmp_path_factory.mktemp("tables"))


def joins(changelog: Changelog) -> list[tuple[str, tuple[timedelta, ...]]]:
    """Return the joins of a query, those below first, each with the TTLs of its states."""
    found = [each for each in changelog.operator.all() if "join" in each.type]
    return [
        (each.type.removeprefix("stream-exec-"), tuple(state.ttl for state in each.states)) for each in found
    ]


ON = "FROM orders AS o JOIN parcels AS p ON o.id = p.id"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT item, place {ON}", (FOR_EVER, FOR_EVER)),
        (f"SELECT /*+ STATE_TTL('o' = '1 d', 'p' = '1 h') */ item, place {ON}", (DAY, HOUR)),
        (f"SELECT /*+ STATE_TTL('p' = '1 h') */ item, place {ON}", (FOR_EVER, HOUR)),
        (f"SELECT /*+ STATE_TTL('P' = '1 h', 'P' = '1 d') */ item, place {ON}", (FOR_EVER, DAY)),
        (
            f"SELECT item, place FROM (SELECT /*+ STATE_TTL('o' = '1 d') */ o.item, p.place {ON})",
            (DAY, FOR_EVER),
        ),
        (
            "SELECT /*+ STATE_TTL('orders' = '1 d', 'parcels' = '1 h') */ item, place FROM orders, parcels "
            "WHERE orders.id = parcels.id AND item <> 'x'",
            (DAY, HOUR),
        ),
        (
            "SELECT /*+ STATE_TTL('orders' = '1 d') */ item, place FROM orders NATURAL JOIN parcels",
            (DAY, FOR_EVER),
        ),
        (
            "SELECT /*+ STATE_TTL('b' = '1 d') */ a.item, b.item FROM orders a JOIN orders b USING (id)",
            (FOR_EVER, DAY),
        ),
    ],
)
def test_a_join_keeps_each_side_as_long_as_its_hint_says(
    tables: World, query: str, expected: tuple[timedelta, timedelta]
) -> None:
    assert joins(tables.operators(query)) == [("join_1", expected)]


def test_of_a_cascade_the_result_of_a_join_is_kept_as_long_as_the_session_says(tables: World) -> None:
    query = (
        "SELECT /*+ STATE_TTL('o' = '2 d', 'p' = '1 h', 'q' = '3 d') */ item, p.place FROM orders o "
        "JOIN parcels p ON o.id = p.id LEFT JOIN parcels q ON p.place = q.place"
    )

    found = tables.operators(query, settings={"table.exec.state.ttl": "1 d"})

    assert joins(found) == [("join_1", (2 * DAY, HOUR)), ("join_1", (DAY, 3 * DAY))]
    assert found.changes == {RowKind.INSERT, RowKind.DELETE}


def test_a_hint_holds_for_its_own_select_in_a_view_too(tables: World) -> None:
    view = f"CREATE TEMPORARY VIEW v AS SELECT /*+ STATE_TTL('p' = '1 h') */ o.id, o.item, p.place {ON}"
    query = "SELECT /*+ STATE_TTL('v' = '1 d') */ v.item, p.place FROM v JOIN parcels p ON v.id = p.id"

    assert joins(tables.operators(query, [view])) == [
        ("join_1", (FOR_EVER, HOUR)),
        ("join_1", (DAY, FOR_EVER)),
    ]


def test_an_aggregate_takes_the_hint_of_its_own_select(tables: World) -> None:
    counts = (
        "CREATE TEMPORARY VIEW counts AS SELECT /*+ STATE_TTL('orders' = '1 h') */ id, count(*) AS n "
        "FROM orders GROUP BY id"
    )
    joined = f"(SELECT /*+ STATE_TTL('p' = '1 d') */ o.id, place {ON}) AS j"
    query = (
        f"SELECT /*+ STATE_TTL('j' = '2 d') */ place, string(max(n)) FROM {joined} NATURAL "
        "JOIN counts AS c GROUP BY place"
    )
    nested = f"SELECT /*+ STATE_TTL('j' = '2 d') */ place, string(count(*)) FROM {joined} GROUP BY place"

    found, grouped = (
        [
            (operator.type, *(state.ttl for state in operator.states))
            for operator in each.operator.all()
            if operator.states
        ]
        for each in (tables.operators(query, [counts]), tables.operators(nested))
    )

    join, group = "stream-exec-join_1", "stream-exec-group-aggregate_1"
    assert found == [(join, FOR_EVER, DAY), (group, HOUR), (join, 2 * DAY, FOR_EVER), (group, FOR_EVER)]
    assert grouped == [(join, FOR_EVER, DAY), (group, 2 * DAY)]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("one.t = two.t", "interval-join_1"),
        ("one.n = two.n AND one.t BETWEEN two.t - INTERVAL '1' HOUR AND two.t", "interval-join_1"),
        # The rows of one side would be kept for ever.
        ("one.n = two.n AND one.t > two.t", "join_1"),
        ("one.n = two.n", "join_1"),
    ],
)
def test_only_joins_whose_state_the_watermark_cleans_up_are_those_of_spark(
    tables: World, condition: str, kind: str
) -> None:
    query = f"SELECT string(one.n), string(two.n) FROM one JOIN two ON {condition}"

    found = tables.operators(query, EVENTS)

    assert [name for name, _ in joins(found)] == [kind]
    assert found.changes == ADDS


def test_a_table_that_is_read_as_it_stands_is_joined_without_state(tables: World) -> None:
    text = f"INSERT INTO sent SELECT item, place {ON.replace('JOIN', 'LEFT JOIN')}"
    start = text.index("parcels")
    hint = SourceHint(start=start, stop=start + len("parcels"), options={"streaming": "false"})

    assert joins(tables.changelog(StreamMember(text=text, hints=(hint,)))) == [("lookup-join_1", ())]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            (
                "SELECT item, place FROM orders o LEFT "
                "JOIN parcels p ON o.id = p.id AND o.item > string(now()) || place"
            ),
            "may hold when a pair of rows is emitted",
        ),
        (
            f"SELECT /*+ STATE_TTL('o' = '1 d') */ item, place FROM (SELECT item, place {ON}) AS o",
            r"STATE_TTL\('o'\)",
        ),
    ],
)
def test_a_join_that_cannot_be_kept_is_refused_with_the_reason(
    tables: World, query: str, reason: str
) -> None:
    with pytest.raises(Unsupported, match=reason):
        tables.operators(query)


def test_a_hint_names_the_alias_of_a_table(tables: World) -> None:
    with pytest.raises(DefinitionInvalid, match="the SELECT reads o, p; name a table after FROM"):
        tables.operators(f"SELECT /*+ STATE_TTL('orders' = '1 d') */ item, place {ON}")


def test_a_join_without_equal_columns_says_so(tables: World) -> None:
    operator = tables.operators("SELECT item, place FROM orders o JOIN parcels p ON o.id < p.id").operator

    assert [each.description for each in operator.all() if each.type == "stream-exec-join_1"] == [
        "Join Inner, (id < id) (no equal columns: all rows have one key)"
    ]


def test_a_row_of_a_join_is_identified_by_both_sides_or_by_the_one_that_matches_once(tables: World) -> None:
    first = (
        "(SELECT id, {0} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY now()) AS rn "
        "FROM {1}) WHERE rn = 1)"
    )
    orders, parcels = first.format("item", "orders"), first.format("place", "parcels")
    query = f"SELECT o.id AS x, p.id AS y FROM {orders} AS o JOIN {parcels} AS p ON o.id = p.id"

    found = tables.operators(query)

    assert sorted(len(key) for key in found.unique) == [1, 1, 2]


def test_a_select_takes_the_row_back_that_matched_none(world: World) -> None:
    world.sql("INSERT INTO orders VALUES (1, 'pen'), (2, 'ink')")
    statements, request = world._gateway()
    member = StreamMember(text=f"SELECT item, place {ON.replace('JOIN', 'LEFT JOIN')}")

    with closing(statements.follow(request.context, member, job_id=uuid4().hex)) as rows:
        wait_rows(rows, 2)
        world.sql("INSERT INTO parcels VALUES (1, 'Rome')")
        wait_rows(rows, 4)
        given = [(kind.value, *row) for kind, row in zip(rows.kinds(0, 4), rows.page(0, 4), strict=True)]

    assert sorted(given[:2]) == [("+I", "ink", None), ("+I", "pen", None)]
    assert given[2:] == [("-D", "pen", None), ("+I", "pen", "Rome")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("SEMI", [[], [("+I", "pen")], [("+I", "pad")]]),
        ("ANTI", [[("+I", "ink"), ("+I", "pen")], [("-D", "pen")], [("+I", "cup")]]),
    ],
)
def test_a_semi_or_anti_join_gives_its_rows_as_they_find_or_lose_a_match(
    module_driver: SparkDriver, tmp_path: Path, kind: str, expected: list[list[tuple[str, str]]]
) -> None:
    orders, parcels = (f"(SELECT id, item FROM clicks WHERE of = '{each}')" for each in ("order", "parcel"))
    session = module_driver.new_session()
    joined = statement(f"SELECT o.item FROM {orders} AS o LEFT {kind} JOIN {parcels} AS p ON o.id = p.id")
    stream = OperatorStream(session, tmp_path, "of STRING, id INT, item STRING", joined)

    given = [
        stream.feed(*({"of": of, "id": number, "item": item} for of, number, item in batch))
        for batch in (
            [("order", 1, "pen"), ("order", 2, "ink")],
            [("parcel", 1, None)],
            [("parcel", 1, None), ("order", 1, "pad"), ("order", 3, "cup")],
        )
    ]
    stream.stop()

    assert [sorted((change, row["item"]) for change, row in each) for each in given] == expected


@pytest.mark.slow
def test_a_job_joins_what_comes_on_either_side_through_stops_and_savepoints(world: World) -> None:
    world.sql("INSERT INTO orders VALUES (1, 'pen'), (NULL, 'ink')")
    # The second join finds the order again.
    again = f"{ON} JOIN orders AS q ON o.id = q.id AND o.item = q.item"
    query = f"SELECT /*+ STATE_TTL('o' = '7 d', 'p' = '1 d') */ q.item, place {again}"
    job_id, definition = world.job(query)
    world.sql("INSERT INTO parcels VALUES (1, 'Rome'), (2, 'Oslo'), (NULL, 'Bonn')")
    world.wait_sent(("pen", "Rome"))

    world.engine.stop(job_id, definition)
    world.engine.start(job_id, definition, 2)
    world.sql("INSERT INTO orders VALUES (2, 'cup'), (1, 'pad')")
    world.wait_sent(("pen", "Rome"), ("cup", "Oslo"), ("pad", "Rome"))

    savepoint = world.engine.savepoint(job_id, definition, world.folder("s"))
    world.job(query.replace("7 d", "9 d"), restored_from=savepoint)
    world.sql("INSERT INTO parcels VALUES (2, 'Kyiv')")
    world.wait_sent(("pen", "Rome"), ("cup", "Oslo"), ("pad", "Rome"), ("cup", "Kyiv"))
    # Its state has the rows of either side.
    with pytest.raises(
        DefinitionInvalid, match=r"orders, .*parcels, .*orders, and this one reads them in another order: "
    ):
        world.job(
            "SELECT q.item, place FROM parcels AS p JOIN orders AS o ON o.id = p.id "
            "JOIN orders AS q ON o.id = q.id",
            restored_from=savepoint,
        )


def test_states_that_another_release_has_laid_out_are_refused_before_anything_starts(world: World) -> None:
    query = f"SELECT item, place {ON}"
    world.sql("INSERT INTO orders VALUES (1, 'pen')")
    world.sql("INSERT INTO parcels VALUES (1, 'Rome')")
    job_id, definition = world.job(query)
    world.wait_sent(("pen", "Rome"))
    savepoint = world.engine.savepoint(job_id, definition, world.folder("s"))
    before, later = Path(savepoint, "checkpoint", "operators"), Path(definition.checkpoint, "operators")
    assert before.read_text() == later.read_text() == json.dumps({"layout": LAYOUT})
    for file, layout in ((before, LAYOUT - 1), (later, LAYOUT + 1)):
        file.with_name(".operators.crc").unlink(missing_ok=True)
        file.write_text(json.dumps({"layout": layout}))
    world.sql("INSERT INTO parcels VALUES (1, 'Oslo')")

    with pytest.raises(DefinitionInvalid) as refused:
        world.job(query, restored_from=savepoint)
    world.engine.start(job_id, definition, 2)
    world.wait(lambda: not world.engine.progress(job_id).running)
    progress = world.engine.progress(job_id)

    assert refused.value.message == (
        f"Savepoint {savepoint} has states of operators in layout {LAYOUT - 1}, "
        f"and this release reads layout {LAYOUT}; start the statement without it."
    )
    assert progress.final
    assert progress.error == (
        f"Checkpoint {definition.checkpoint} has states of operators in layout {LAYOUT + 1}, "
        f"and this release reads layout {LAYOUT}. The release that wrote them can still drain the job: "
        "STOP JOB … WITH SAVEPOINT WITH DRAIN emits their contents. Run the "
        "INSERT again: its new job begins with the rows that the table has then."
    )
    world.wait_sent(("pen", "Rome"))


FLIP_292 = (
    "CREATE TEMPORARY TABLE Orders (gmt_create TIMESTAMP(3), gmt_modified TIMESTAMP(3), order_id STRING NOT "
    "NULL, PRIMARY KEY (order_id) NOT ENFORCED) WITH ('connector' = 'datagen', 'rows-per-second' = '50')",
    "CREATE TEMPORARY TABLE Logistics (gmt_create TIMESTAMP(3), gmt_modified TIMESTAMP(3), order_line_id "
    "STRING NOT NULL, order_id STRING NOT NULL, product_id STRING NOT NULL, shipment_status STRING, PRIMARY "
    "KEY (order_id, order_line_id) NOT ENFORCED) WITH ('connector' = 'datagen', 'rows-per-second' = '50')",
    "CREATE TEMPORARY TABLE EnrichedOrders (order_line_id STRING NOT NULL, order_id STRING NOT NULL, "
    "product_id STRING NOT NULL, order_placed_ts TIMESTAMP(3), order_shipped_ts TIMESTAMP(3), "
    "PRIMARY KEY (order_line_id, order_id) NOT ENFORCED) WITH ('connector' = 'blackhole')",
    "CREATE TEMPORARY VIEW order_shipped AS SELECT gmt_modified AS order_shipped_ts, order_line_id, "
    "order_id, product_id FROM Logistics WHERE shipment_status = 'SHIPPED'",
)
ENRICHED = (
    "INSERT INTO EnrichedOrders SELECT /*+ STATE_TTL('tmp_a' = '7 d', 'tmp_b' = '1 d') */ "
    "tmp_b.order_line_id, tmp_a.order_id, tmp_b.product_id, tmp_a.gmt_create AS order_place_ts, "
    "tmp_b.order_shipped_ts FROM Orders tmp_a JOIN order_shipped tmp_b ON tmp_a.order_id = tmp_b.order_id"
)


@pytest.mark.slow
def test_the_join_of_flip_292_runs_with_the_ttls_of_both_inputs(world: World) -> None:
    member = StreamMember(text=ReadStatement(ENRICHED).text)

    job_id, _ = world.start(members=(member,), temporary=FLIP_292)
    world.wait(lambda: (world.engine.progress(job_id).rows_read or 0) > 20)

    assert world.engine.progress(job_id).error is None
    assert joins(world.changelog(member, temporary=FLIP_292)) == [("join_1", (7 * DAY, DAY))]
