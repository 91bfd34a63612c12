"""Deduplication on a real Spark: the first row of each key passes once, whatever happens to the stream."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.errors import DefinitionInvalid, MtError, Unsupported
from mt_core.model.stream import StreamDefinition, StreamMember
from mt_core.sessions.ports import ResultRows
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.sql.parser import ReadStatement
from tests.depth import DEPTH, dice, rounds
from tests.integration.stream_world import StreamWorld, member
from tests.support.stream_engine_contract import WAIT_S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600 * DEPTH)]

ROUNDS = rounds(2, 6)
NUMBERED = "ROW_NUMBER() OVER (PARTITION BY city ORDER BY p) AS rn"
SOURCE = "(SELECT *, current_timestamp() AS p FROM clicks) AS c"


class World(StreamWorld):
    """A source with a key and a value, and a sink of these."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        super().__init__(driver, folder)
        self.sql("CREATE TABLE clicks (city STRING, n INT)")
        self.sql("CREATE TABLE firsts (city STRING, n INT)")

    def click(self, *rows: tuple[str | None, int]) -> None:
        values = ", ".join(f"({'NULL' if city is None else repr(city)}, {n})" for city, n in rows)
        self.sql(f"INSERT INTO clicks VALUES {values}")

    def deduplicate(self, hint: str = "", **changes: object) -> tuple[str, StreamDefinition]:
        return self.start(insert(f"SELECT {hint} city, n, {NUMBERED} FROM {SOURCE}"), **changes)

    def start(self, text: str, **changes: object) -> tuple[str, StreamDefinition]:  # type: ignore[override]
        return super().start(ReadStatement(text).text, **changes)

    def wait_firsts(self, *expected: tuple[str | None, int]) -> None:
        self.wait_count(len(expected))
        assert self.firsts() == sorted(expected, key=str)

    def wait_count(self, rows: int) -> None:
        self.wait(lambda: len(self.firsts()) >= rows)

    def firsts(self) -> list[tuple[str | None, int]]:
        return sorted((tuple(row) for row in self.sql("SELECT * FROM firsts")), key=str)


def wait_rows(rows: ResultRows, count: int) -> list[list[object]]:
    deadline = time.monotonic() + WAIT_S
    while rows.available(0, count, 1.0) < count:
        assert rows.running, rows.page(0, count)
        assert time.monotonic() < deadline, "the rows did not come"
    return rows.page(0, count)


def insert(numbered: str, condition: str = "rn = 1") -> str:
    return f"INSERT INTO firsts SELECT city, n FROM ({numbered}) WHERE {condition}"


def kept(world: World, job_id: str) -> list[dict[str, object]]:
    """Return what the operators of a job keep, without the bytes."""
    states = json.loads(world.engine.progress(job_id).states or "[]")
    return [{name: value for name, value in state.items() if name != "bytes"} for state in states]


@pytest.fixture
def world(module_driver: SparkDriver, tmp_path: Path) -> Iterator[World]:
    world = World(module_driver, tmp_path)
    yield world
    world.stop_all()


@pytest.fixture(scope="module")
def tables(module_driver: SparkDriver, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world whose tables no test changes, for statements of which none starts."""
    return World(module_driver, tmp_path_factory.mktemp("tables"))


def test_the_first_row_of_each_key_passes_once(world: World) -> None:
    world.click(("Rome", 1), (None, 2))
    job_id, _ = world.deduplicate()
    world.wait_firsts(("Rome", 1), (None, 2))

    world.click(("Rome", 3), (None, 4), ("Oslo", 5))

    world.wait_firsts(("Rome", 1), (None, 2), ("Oslo", 5))
    world.wait(
        lambda: kept(world, job_id) == [{"operator": "deduplicate_1", "rows": 3, "removed": 0, "expired": 0}]
    )


@pytest.mark.slow
def test_generated_rows_are_deduplicated_by_their_column_as_proctime(world: World) -> None:
    generated = (
        "CREATE TEMPORARY TABLE g (n INT, p AS PROCTIME()) WITH ('connector' = 'datagen', "
        "'rows-per-second' = '50', 'fields.n.min' = '1', 'fields.n.max' = '3')"
    )
    numbered = "SELECT 'x' AS city, n, ROW_NUMBER() OVER (PARTITION BY n ORDER BY p) AS rn FROM g"

    world.start(insert(numbered), temporary=(generated,))

    world.wait_firsts(("x", 1), ("x", 2), ("x", 3))


def test_a_stream_with_the_savepoint_of_other_operators_ends_with_what_differs(world: World) -> None:
    world.click(("Rome", 1))
    job_id, definition = world.deduplicate()
    world.wait_firsts(("Rome", 1))
    savepoint = world.engine.savepoint(job_id, definition, world.folder("s"))
    by_number = insert(f"SELECT *, {NUMBERED.replace('city', 'n')} FROM {SOURCE}")
    stateless = "INSERT INTO firsts SELECT city, n FROM clicks"

    others = [world.start(text, restored_from=savepoint)[0] for text in (by_number, stateless)]
    world.click(("Oslo", 2))
    ends = [world.wait_end(job_id) for job_id in others]

    assert [each.final for each in ends] == [True, True]
    assert re.search(
        r"state of other operators, which this query cannot read\. "
        r"Existing key_schema=.*StringType.* and new key_schema=.*"
        r"IntegerType.*\. Start from a savepoint of a job with the same operators, "
        r"or RESET 'execution\.savepoint\.path'",
        str(ends[0].error),
    )
    assert re.search(
        r"which this query cannot read\. Stateful operators in the metadata: \[.*\]\. Start",
        str(ends[1].error),
    )
    assert world.firsts() == [("Rome", 1)]


@pytest.mark.slow
def test_a_key_passes_again_when_its_state_has_expired_and_a_savepoint_goes_on_with_another_ttl(
    world: World,
) -> None:
    world.click(("Rome", 1))
    job_id, definition = world.deduplicate()
    world.wait_firsts(("Rome", 1))

    savepoint = world.engine.savepoint(job_id, definition, world.folder("down"), drain=True)
    # Nothing of the old job is needed.
    shutil.rmtree(definition.checkpoint)
    job_id, definition = world.deduplicate("/*+ STATE_TTL('c' = '1 ms') */", restored_from=savepoint)
    world.click(("Rome", 2), ("Oslo", 3))
    world.wait_firsts(("Rome", 1), ("Oslo", 3))
    world.click(("Rome", 4), ("Oslo", 5))
    world.wait_firsts(("Rome", 1), ("Oslo", 3), ("Oslo", 5))

    savepoint = world.engine.savepoint(job_id, definition, world.folder("up"))
    world.deduplicate(restored_from=savepoint, settings={"table.exec.state.ttl": "1 d"})
    world.click(("Oslo", 6), ("Bonn", 7))
    world.wait_firsts(("Rome", 1), ("Oslo", 3), ("Oslo", 5), ("Oslo", 6), ("Bonn", 7))
    world.click(("Oslo", 8), ("Bonn", 9), ("Kyiv", 10))
    world.wait_firsts(("Rome", 1), ("Oslo", 3), ("Oslo", 5), ("Oslo", 6), ("Bonn", 7), ("Kyiv", 10))


@pytest.mark.parametrize(
    ("numbered", "condition", "reason"),
    [
        (
            "ROW_NUMBER() OVER (PARTITION BY city ORDER BY p DESC) AS rn",
            "rn = 1",
            "only accepts new rows",
        ),
        ("ROW_NUMBER() OVER (PARTITION BY city ORDER BY n) AS rn", "rn = 1", "only accepts new rows"),
        ("ROW_NUMBER() OVER (PARTITION BY city ORDER BY p, n) AS rn", "rn = 1", "only accepts new rows"),
        (NUMBERED, "rn <= 3", "only accepts new rows"),
        (
            "ROW_NUMBER() OVER (PARTITION BY city COLLATE UTF8_LCASE ORDER BY p) AS rn",
            "rn = 1",
            "with a COLLATION",
        ),
        (NUMBERED, "rn = 2", "only accepts new rows"),
        (
            "RANK() OVER (PARTITION BY city ORDER BY p) AS rn",
            "rn = 1",
            r"by ROW_NUMBER\(\), not",
        ),
    ],
)
def test_what_would_replace_rows_is_refused_with_the_reason(
    tables: World, numbered: str, condition: str, reason: str
) -> None:
    with pytest.raises(Unsupported, match=reason):
        tables.start(insert(f"SELECT city, n, {numbered} FROM {SOURCE}", condition))


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        (
            f"SELECT /*+ STATE_TTL('clicks' = '1 d') */ city, n, {NUMBERED} FROM {SOURCE}",
            DefinitionInvalid,
            "the SELECT reads c; name a table",
        ),
        (
            (
                f"SELECT city, n, {NUMBERED} FROM (SELECT /*+ STATE_TTL('clicks' = '1 d') */ *, "
                "now() AS p FROM clicks) AS c"
            ),
            Unsupported,
            "that SELECT has no state with a TTL",
        ),
        (
            f"SELECT /*+ STATE_TTL('c' = '1 d ON READ EVENT TIME') */ city, n, {NUMBERED} FROM {SOURCE}",
            Unsupported,
            (
                "EVENT TIME for the TTL of deduplicateState: The first row of each key reads rows without "
                "a watermark column"
            ),
        ),
    ],
)
def test_a_state_ttl_that_no_operator_takes_is_refused(
    tables: World, query: str, error: type[MtError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        tables.start(insert(query))


def test_a_select_gives_each_key_once(world: World) -> None:
    world.click(("Rome", 1), ("Rome", 1), ("Oslo", 2))
    statements, request = world._gateway()
    query = f"WITH c AS (SELECT *, now() AS p FROM clicks), d AS (SELECT *, {NUMBERED} FROM c)"
    member = StreamMember(text=f"{query} SELECT city, n, rn FROM d WHERE rn < 2 AND n < 5")

    with closing(statements.follow(request.context, member, job_id=uuid4().hex)) as rows:
        given = wait_rows(rows, 2)
        world.click(("Rome", 3), ("Bonn", 4), ("Kyiv", 5))
        given = wait_rows(rows, 3)

    assert sorted(given) == [["Bonn", 4, 1], ["Oslo", 2, 1], ["Rome", 1, 1]]


def test_explain_shows_the_operators_with_their_changes_and_how_long_their_state_is_kept(
    tables: World,
) -> None:
    text = insert(f"SELECT /*+ STATE_TTL('c' = '90 min') */ city, n, {NUMBERED} FROM {SOURCE}")

    explained = tables.explain(member(ReadStatement(text).text)).splitlines()

    stream, operators = explained.index("== Stream =="), explained.index("== Operators ==")
    after = "an entry expires 90 min after it was written last"
    assert f"State deduplicateState of Deduplicate: {after}" in explained[stream:operators]
    tree = explained[operators + 1 : explained.index("", operators)]
    assert [line.lstrip(" +-").partition("(")[0] for line in tree] == [
        *["Calc"] * 3,
        "Deduplicate",
        *["Calc"] * 2,
        "TableSourceScan",
    ]
    assert all("changelogMode=[I]" in line and "~" not in line and "@" not in line for line in tree)
    assert tree[3].endswith(", changelogMode=[I], state=[deduplicateState: 90 min])")


@pytest.mark.slow
def test_random_rows_pass_as_a_model_says_through_stops_and_savepoints(world: World) -> None:
    chance, numbers, firsts = dice(27), count(), dict[str, set[int]]()
    job_id, definition = world.deduplicate()

    for attempt in range(2, 2 + ROUNDS):
        rows = [(chance.choice("abcdefgh"), next(numbers)) for _ in range(chance.randint(1, 4))]
        world.click(*rows)
        # Rows of one commit are read in one batch, in which any of them may be the first.
        new = {city: {n for each, n in rows if each == city} for city, _ in rows if city not in firsts}
        firsts.update(new)
        world.wait_count(len(firsts))
        match chance.choice(("stop", "save", "go on")):
            case "stop":
                world.engine.stop(job_id, definition)
                world.engine.start(job_id, definition, attempt)
            case "save":
                savepoint = world.engine.savepoint(job_id, definition, world.folder(str(attempt)))
                job_id, definition = world.deduplicate(restored_from=savepoint)

    given = world.firsts()
    assert [city for city, _ in given] == sorted(firsts)
    assert [row for row in given if row[1] not in firsts[str(row[0])]] == []
