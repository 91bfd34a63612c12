"""The rows of a reading that can join changed rows are found by their keys, at one version of its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from mt_core.incremental.stages.look_ups import Match, SourceFacts
from mt_core.spark.iceberg import look_ups
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.find_rows import all_rows
from mt_core.spark.iceberg.inline_plans import PLANS
from mt_core.spark.iceberg.jvm_rows import MOST_SENT
from mt_core.spark.queries.source_versions import pins
from mt_core.spark.readings import keyed_readings
from mt_core.spark.readings.keyed_readings import KeyedReadings
from mt_core.spark.readings.reading_changes import LocalRelations
from mt_core.spark.readings.reading_versions import ReadingVersions
from mt_core.spark.readings.row_images import ImageViews, appended_rows, changed_rows
from mt_core.spark.readings.scoped_rows import ScopeNotApplied
from mt_core.tables.engine import Query, ShapedQuery
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

JOIN = "SELECT c.name, sum(o.price) AS s FROM c JOIN o ON c.k = o.k WHERE o.day > 3 GROUP BY c.name"
CUSTOMERS, ORDERS = 0, 1


def create(world: RefreshWorld, partitions: str = "") -> None:
    """Create customers and orders: 10 of each customer, some without one."""
    world.spark(
        "CREATE TABLE c (k BIGINT, name STRING, note STRING) USING iceberg",
        "INSERT INTO c SELECT id, concat('c', id), 'n' FROM range(30)",
        "CREATE TABLE o (id INT, k INT, price DECIMAL(9, 2), day INT, note STRING) USING iceberg "
        f"{partitions}",
        "INSERT INTO o SELECT id, IF(id % 7 = 0, NULL, id % 30), id, id % 10, 'n' FROM range(0, 300, 1, 3)",
    )


def read(world: RefreshWorld, text: str = JOIN, exact: frozenset[int] = frozenset()) -> KeyedReadings:
    query = Query(text=text, catalog="lake", namespace=(world.namespace,))
    lineage, shaped = world.contexts.versions.lineage(query), world.engine.changes.read_shape(query)
    assert isinstance(shaped, ShapedQuery)
    versions = pins(world.engine.sources.read_vector(query))
    return KeyedReadings(
        session=world.session,
        lineage=lineage,
        versions=ReadingVersions.at(world.session, lineage, versions),
        scopes=shaped.shape.scopes,
        exact=exact,
    )


def rows_of(world: RefreshWorld, query: str) -> ComputedRows:
    return collect_or_checkpoint(world.session.sql(query))


def counted(rows: ComputedRows | None) -> Counter[str]:
    assert rows is not None
    return Counter(map(repr, map(tuple, rows.frame.collect())))


def expected(world: RefreshWorld, query: str) -> Counter[str]:
    return Counter(map(repr, map(tuple, world.session.sql(query).collect())))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all sources for large ones."""
    monkeypatch.setattr(SourceFacts, "is_small", property(lambda facts: False))


@pytest.fixture(params=["memory", "files", "job"])
def access(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How rows are found."""
    if request.param != "memory":
        monkeypatch.setattr(SourceFacts, "is_small", property(lambda facts: False))
    if request.param == "job":
        monkeypatch.setattr(look_ups, "MOST_FILES", 0)
    return str(request.param)


def test_a_small_source_is_read_once_for_all_queries_with_their_columns_and_conditions(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    read_columns = list[Sequence[str]]()

    def recorded(*args: object) -> object:
        read_columns.append(args[2].names)  # type: ignore[attr-defined]
        return all_rows(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(keyed_readings, "all_rows", recorded)
    before = started_jobs(world.session)

    first = read(world).whole(ORDERS)
    second = read(world, "SELECT k, count(*) AS n FROM o WHERE day = 1 GROUP BY k").whole(0)
    of_version = read(world, "SELECT sum(id) AS s FROM o").whole(0)

    assert started_jobs(world.session) == before
    assert read_columns == [["k", "price", "day"], ["id", "k", "price", "day"]]
    assert counted(first) == expected(world, "SELECT k, price, day FROM o WHERE day > 3")
    assert counted(second) == expected(world, "SELECT k, day FROM o WHERE day = 1")
    assert counted(of_version) == expected(world, "SELECT id FROM o")


def test_other_refreshes_use_the_tables_of_a_query_while_rows_are_read(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    old, run, locked = read(world), PLANS.run, list[bool]()
    world.spark("INSERT INTO o SELECT 400, 7, 1, 5, 'n'")
    new = read(world)
    source = next(each for each in new.lineage.sources if each.parts[-1] == "o")

    def recorded(*args: Any) -> ComputedRows | None:
        locked.append(new.lineage.lock.locked())
        return run(*args)

    monkeypatch.setattr(PLANS, "run", recorded)
    whole = new.whole(ORDERS)
    appended = appended_rows(
        world.session,
        new.lineage,
        source,
        old.versions.versions[source.name],
        new.versions.versions[source.name],
        ["id"],
    )

    assert (whole and whole.count(), appended and appended.count()) == (181, 1)
    assert locked == [False, False, False]


@pytest.mark.parametrize(
    ("keys", "matches", "condition"),
    [
        ("SELECT 3L AS a UNION ALL SELECT NULL", [("a", "k", False)], "k = 3"),
        ("SELECT 3L AS a UNION ALL SELECT NULL", [("a", "k", True)], "k <=> 3 OR k IS NULL"),
        (
            "SELECT id AS a FROM range(-5000000000, 20, 20000000)",
            [("a", "k", False)],
            "k < 20 AND k % 20 = 0",
        ),
        ("SELECT CAST(id AS INT) AS a FROM range(10, 400)", [("a", "id", False)], "id >= 10"),
        ("SELECT * FROM VALUES (3, 3), (4, 5) AS v(a, b)", [("a", "k", False), ("b", "id", False)], "id = 3"),
        ("SELECT 3 AS a", [("a", "k", False), ("a", "id", False)], "id = 3"),
        ("SELECT 33 AS a", [("a", "k", False)], "false"),
        ("SELECT 33 AS a WHERE false", [("a", "k", True)], "false"),
    ],
)
def test_rows_are_found_by_keys(
    world: RefreshWorld,
    access: str,
    keys: str,
    matches: Sequence[tuple[str, str, bool]],
    condition: str,
) -> None:
    create(world, "PARTITIONED BY (bucket(4, k))")
    query = "SELECT id, k, sum(price) AS s FROM o WHERE day < 7 GROUP BY id, k"

    readings, values = read(world, query), rows_of(world, keys)
    before = started_jobs(world.session)

    found = readings.matching(0, values, [Match(of=of, to=to, null_safe=safe) for of, to, safe in matches])

    assert found is not None
    assert found.few
    assert (started_jobs(world.session) == before) == (access != "job" or values.count() == 0)
    assert counted(found) == expected(
        world, f"SELECT id, k, price, day FROM o WHERE day < 7 AND ({condition})"
    )


def test_rows_have_the_columns_of_the_table_as_it_is_now(world: RefreshWorld, access: str) -> None:
    create(world)
    world.spark(
        "ALTER TABLE o RENAME COLUMN day TO d",
        "ALTER TABLE o DROP COLUMN price",
        "ALTER TABLE o ADD COLUMN price STRING FIRST",
        "ALTER TABLE o ALTER COLUMN k TYPE BIGINT",
    )
    readings = read(world, "SELECT k, d, max(price) AS p FROM o WHERE d <> 2 GROUP BY k, d")

    found = readings.matching(0, rows_of(world, "SELECT 5 AS a"), [Match(of="a", to="k", null_safe=False)])

    ids = [number for number in range(300) if number % 7 and number % 30 == 5]
    assert counted(found) == Counter(repr((None, 5, number % 10)) for number in ids)


def test_keys_of_different_widths_with_equal_bytes_are_different_keys(
    world: RefreshWorld, large: None
) -> None:
    world.spark(
        "CREATE TABLE c (k BIGINT, name STRING) USING iceberg",
        "CREATE TABLE o (k BIGINT, price INT) USING iceberg",
        "INSERT INTO o VALUES (-1, 1), (4294967295, 2)",
    )
    readings = read(world, "SELECT c.name, sum(o.price) AS s FROM c JOIN o ON c.k = o.k GROUP BY c.name")
    matches = [Match(of="a", to="k", null_safe=False)]

    of_int = readings.matching(ORDERS, rows_of(world, "SELECT -1 AS a"), matches)
    of_bigint = readings.matching(ORDERS, rows_of(world, "SELECT 4294967295L AS a"), matches)

    assert counted(of_int) == expected(world, "SELECT * FROM o WHERE k = -1")
    assert counted(of_bigint) == expected(world, "SELECT * FROM o WHERE k > 0")


def test_equal_keys_are_looked_up_once(
    world: RefreshWorld, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    counts = list[int]()

    def recorded(*args: object) -> object:
        counts.append(args[4].count())  # type: ignore[attr-defined]
        return look_ups.look_up(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(keyed_readings, "look_up", recorded)
    matches = [Match(of="a", to="k", null_safe=False)]
    query = "SELECT k, count(*) AS n FROM o WHERE day = 4 GROUP BY k"

    first, second, others, of_other_columns = (
        read(world, text).matching(number, rows_of(world, keys), matches)
        for text, number, keys in (
            (JOIN, ORDERS, "SELECT * FROM VALUES (3), (4), (4), (NULL) AS v(a)"),
            (query, 0, "SELECT * FROM VALUES ('x', 3), ('y', 4) AS v(b, a)"),
            (query, 0, "SELECT 4 AS a"),
            (query.replace("k, count(*)", "k, max(id)"), 0, "SELECT * FROM VALUES (3), (4) AS v(a)"),
        )
    )

    assert counts == [2, 1, 2]
    assert counted(first) == expected(world, "SELECT k, price, day FROM o WHERE day > 3 AND k IN (3, 4)")
    assert counted(second) == expected(world, "SELECT k, day FROM o WHERE day = 4 AND k IN (3, 4)")
    assert counted(others) == expected(world, "SELECT k, day FROM o WHERE day = 4 AND k = 4")
    assert counted(of_other_columns) == expected(
        world, "SELECT id, k, day FROM o WHERE day = 4 AND k IN (3, 4)"
    )


def test_a_run_looks_each_key_up_once_for_all_readings_of_a_source(
    world: RefreshWorld, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    readings = read(
        world,
        "SELECT a.price, count(b.day) AS n FROM o AS a JOIN o AS b ON a.k = b.k WHERE b.day > 3 "
        "GROUP BY a.price",
    )
    looked_up = list[list[int]]()

    def recorded(*args: Any) -> ComputedRows | look_ups.Refusal:
        looked_up.append(sorted(args[4].rows["k0"].to_pylist()))
        return look_ups.look_up(*args)

    monkeypatch.setattr(keyed_readings, "look_up", recorded)

    def matching(number: int, *keys: int) -> Counter[str]:
        given = rows_of(world, f"SELECT explode(array({', '.join(map(str, keys))})) AS a")
        return counted(readings.matching(number, given, [Match(of="a", to="k", null_safe=False)]))

    first, second, third = matching(0, 3, 5, 3), matching(1, 5, 7), matching(0, 7, 3)

    assert looked_up == [[3, 5], [7]]
    assert first == expected(world, "SELECT k, price FROM o WHERE k IN (3, 5)")
    assert second == expected(world, "SELECT k, day FROM o WHERE k IN (5, 7) AND day > 3")
    assert third == expected(world, "SELECT k, price FROM o WHERE k IN (3, 7)")


def test_a_required_condition_is_applied_or_the_rows_are_not_returned(
    world: RefreshWorld, large: None
) -> None:
    create(world)
    text = "SELECT k, count(*) AS n FROM o WHERE 10 / (day - 3) > 0 GROUP BY k"
    keys = rows_of(world, "SELECT 3 AS a"), rows_of(world, "SELECT 4 AS a")
    match = [Match(of="a", to="k", null_safe=False)]

    lenient, exact = read(world, text), read(world, text, exact=frozenset({0}))

    # The condition raises an error for orders of day 3, which are those of customer 3.
    assert counted(lenient.matching(0, keys[0], match)) == expected(world, "SELECT k, day FROM o WHERE k = 3")
    with pytest.raises(ScopeNotApplied, match="condition of the query"):
        exact.matching(0, keys[0], match)
    assert counted(exact.matching(0, keys[1], match)) == expected(
        world, "SELECT k, day FROM o WHERE k = 4 AND day > 3"
    )


def test_the_whole_relation_is_read_instead_of_too_many_rows(
    world: RefreshWorld, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    keys, matches = rows_of(world, "SELECT id AS a FROM range(9)"), [Match(of="a", to="k", null_safe=False)]
    monkeypatch.setattr(look_ups, "MOST_LOCAL", 60)

    several = read(world).matching(ORDERS, keys, matches)
    few = read(world).matching(ORDERS, rows_of(world, "SELECT 3 AS a"), matches)
    too_many = read(world).matching(ORDERS, ComputedRows.of_frame(keys.frame), matches)

    assert (several, few and few.few, too_many) == (None, True, None)


def test_rows_that_a_job_finds_stay_in_the_jvm_however_wide_they_are(
    world: RefreshWorld, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world)
    world.spark("UPDATE o SET note = repeat('n', 700000) WHERE k = 5")
    monkeypatch.setattr(look_ups, "MOST_FILES", 0)
    query = "SELECT k, max(note) AS n FROM o GROUP BY k"
    started = started_jobs(world.session)

    found = read(world, query).matching(
        0, rows_of(world, "SELECT 5 AS a"), [Match(of="a", to="k", null_safe=False)]
    )

    assert started_jobs(world.session) > started
    assert found is not None
    assert found.jvm_rows is not None
    assert (found.count(), found.size > MOST_SENT) == (8, True)


def test_an_empty_source_has_no_rows(world: RefreshWorld) -> None:
    create(world)
    world.spark("CREATE TABLE e (k INT, v STRING) USING iceberg")
    readings = read(world, "SELECT o.id, count(*) AS n FROM o JOIN e ON o.k = e.k GROUP BY o.id")

    found = readings.matching(1, rows_of(world, "SELECT 1 AS k"), [Match(of="k", to="k", null_safe=False)])

    assert counted(readings.whole(1)) == counted(found) == Counter()
    assert readings.facts(1) == SourceFacts(rows=0, size=0, files=0, columns=2)


def test_the_facts_of_a_source_are_in_its_metadata(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "CREATE TABLE p (name STRING NOT NULL, seg STRING, flag BOOLEAN) USING iceberg",
        "ALTER TABLE p SET IDENTIFIER FIELDS name",
        "INSERT INTO p SELECT concat('p', id), 's', true FROM range(100)",
    )
    world.spark(
        "CREATE TABLE d (d DATE, n BIGINT) USING iceberg",
        "INSERT INTO d SELECT explode(sequence(DATE '2026-01-01', DATE '2026-01-31')), NULL",
    )
    before = started_jobs(world.session)

    orders = read(world).facts(ORDERS)
    parts = read(world, "SELECT seg, count(*) AS n FROM p GROUP BY seg").facts(0)
    dates = read(world, "SELECT d, sum(n) AS s FROM d GROUP BY d").facts(0)

    assert started_jobs(world.session) == before
    assert (orders.rows, orders.files, orders.columns, orders.is_small) == (300, 3, 5, True)
    assert orders.values == {"k": 30, "day": 10}
    assert (parts.values, dates.values) == ({"name": 100}, {"d": 31})


def test_rows_less_the_change_are_those_of_the_old_version(world: RefreshWorld) -> None:
    create(world)
    world.spark(
        "CREATE TABLE t (id INT, d DOUBLE, m MAP<STRING, INT>, note STRING) USING iceberg",
        "INSERT INTO t SELECT id % 20, IF(id % 3 = 0, 0.0D, CAST('NaN' AS DOUBLE)), map('a', id % 2), 'n' "
        "FROM range(60)",
        "INSERT INTO t SELECT * FROM t WHERE id < 5",
    )
    text = "SELECT id, d, m FROM t"
    source = read(world, text).lineage.sources[0]
    old = read(world, text)
    world.spark(
        "UPDATE t SET d = -d WHERE id % 4 = 1",
        "DELETE FROM t WHERE id = 7",
        "UPDATE t SET m = map('b', 1), note = 'm' WHERE id % 6 = 2",
        "INSERT INTO t VALUES (3, 0.0D, map('a', 1), 'n'), (NULL, NULL, NULL, NULL)",
    )
    new = read(world, text)
    net = changed_rows(
        world.session,
        new.lineage,
        source,
        old.versions.versions[source.name],
        new.versions.versions[source.name],
        ["id", "d", "m"],
    )
    rows, before = new.whole(0), started_jobs(world.session)
    assert rows is not None

    with ExitStack() as stack:
        images = {0: ImageViews(net=net, stored=rows.schema, read=rows.columns, stack=stack)}
        relations = LocalRelations(
            session=world.session, readings=new, images=images, changed_readings=frozenset(images)
        )
        past = relations.before(0, rows)

    assert started_jobs(world.session) == before
    assert counted(past) == counted(old.whole(0)) != counted(rows)
