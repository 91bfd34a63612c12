"""Tables that streams create in Spark: there with their first batch, whole, and nothing of one
that ends before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.errors import DefinitionInvalid, TableProtected, Unsupported
from mt_core.model.storage import TABLE_ID
from mt_core.model.stream import StreamDefinition
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.stream_world import CREATE, StreamWorld, member

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PARTITIONED = (
    "CREATE TABLE copies PARTITIONED BY (first) TBLPROPERTIES ('k' = 'v') "
    "AS SELECT row, substr(row, 1, 1) AS first FROM flights"
)
REPLACE = "CREATE OR REPLACE TABLE copies AS SELECT row, length(row) AS n FROM flights"


class CreatedWorld:
    """A source, and one job that creates the table `copies` of it."""

    def __init__(self, world: StreamWorld, driver: SparkDriver, folder: Path) -> None:
        self.world, self.engine, self.folder = world, world.engine, folder
        self.warehouse = Path(driver.settings.warehouse) / world.namespace
        self.job_id, self.attempt = uuid4().hex, 0

    def begin(self, text: str = CREATE) -> None:
        self.definition: StreamDefinition = self.engine.prepare(
            self.world.creation(self.job_id, text), self.job_id
        )
        self.go_on()

    def go_on(self) -> None:
        self.attempt += 1
        self.engine.start(self.job_id, self.definition, self.attempt)

    def end(self) -> None:
        """Stop the stream and remove what it created, as an owner does."""
        self.engine.stop(self.job_id, self.definition)
        self.engine.discard(self.job_id, self.definition, drop=True)

    def exists(self) -> bool:
        return bool(self.world.sql("SHOW TABLES LIKE 'copies'"))

    def left(self) -> list[Path]:
        """Return what there is of the job: its table's folder, and its checkpoint."""
        return [*self.warehouse.glob("copies*"), *self.folder.glob(f"{self.job_id}*")]


@pytest.fixture
def created(module_driver: SparkDriver, tmp_path: Path) -> Iterator[CreatedWorld]:
    world = StreamWorld(module_driver, tmp_path)
    yield CreatedWorld(world, module_driver, tmp_path)
    world.stop_all()


def test_a_table_is_created_as_its_statement_says_and_grows(created: CreatedWorld) -> None:
    world = created.world
    world.append("a", "b")
    created.begin(PARTITIONED)
    world.wait(created.exists)
    first = world.rows("copies")

    world.append("c")

    world.wait_rows(["a", "b", "c"], "copies")
    assert first == ["a", "b"]
    partitions = world.sql(f"SELECT partition.first FROM lake.{world.namespace}.copies.partitions")
    assert "'k' = 'v'" in world.sql("SHOW CREATE TABLE copies")[0][0]
    assert sorted(row[0] for row in partitions) == ["a", "b", "c"]
    assert (created.exists(), created.engine.created_rows(created.job_id, created.definition)) == (True, 3)
    assert [path.name for path in created.warehouse.glob("copies*")] == [f"copies-{created.job_id}"]


def test_a_job_whose_source_is_empty_has_no_table_and_leaves_nothing(created: CreatedWorld) -> None:
    created.begin()
    created.world.wait(lambda: created.engine.progress(created.job_id).batch is not None)
    before = created.exists()

    created.end()

    assert (before, created.exists(), created.left()) == (False, False, [])


@pytest.mark.slow
def test_a_table_with_rows_is_discarded_with_its_files_and_its_checkpoint(created: CreatedWorld) -> None:
    created.world.append("a")
    created.begin()
    created.world.wait(created.exists)

    created.end()
    created.engine.discard(created.job_id, created.definition, drop=True)

    assert (created.exists(), created.left()) == (False, [])


def test_a_table_is_replaced_by_the_first_batch_and_not_before(created: CreatedWorld) -> None:
    world = created.world
    world.sql("CREATE TABLE copies AS SELECT 'old' AS row")
    created.begin(REPLACE)
    world.wait(lambda: created.engine.progress(created.job_id).batch is not None)
    before = world.rows("copies")
    unpublished = created.engine.created_rows(created.job_id, created.definition)

    world.append("x")
    world.wait(lambda: created.engine.created_rows(created.job_id, created.definition) is not None)

    assert (before, unpublished, created.definition.replaces) == (["old"], None, True)
    assert [tuple(row) for row in world.sql("SELECT * FROM copies")] == [("x", 1)]


def test_a_replacement_that_ends_before_its_first_batch_leaves_the_old_table(created: CreatedWorld) -> None:
    created.world.sql("CREATE TABLE copies AS SELECT 'old' AS row")
    before = created.left()
    created.begin(REPLACE)
    created.world.wait(lambda: created.engine.progress(created.job_id).running)

    created.end()

    assert (created.world.rows("copies"), created.left()) == (["old"], before)


def test_explain_says_what_a_stream_creates(created: CreatedWorld) -> None:
    world = created.world
    world.append("a")

    explained = world.explain(member(PARTITIONED)).splitlines()

    assert explained[0] == "== Stream =="
    assert (
        f"Table lake.{world.namespace}.copies: its first batch that has rows creates it, "
        "as one commit (level 3, atomic); then each batch once, as one commit"
    ) in explained
    with pytest.raises(Unsupported, match=r"A stream cannot create spark_catalog.default.c: "):
        world.explain(member("CREATE TABLE spark_catalog.default.c USING parquet AS SELECT * FROM flights"))


@pytest.mark.slow
def test_an_insert_goes_on_from_the_savepoint_that_kept_the_table(created: CreatedWorld) -> None:
    world = created.world
    world.append("a")
    created.begin()
    world.wait(created.exists)
    path = created.engine.savepoint(created.job_id, created.definition, world.folder("s"))
    world.append("b")

    world.start("INSERT INTO copies SELECT * FROM flights", restored_from=path)

    world.wait_rows(["a", "b"], "copies")


def test_a_table_that_somebody_else_creates_first_stays_and_ends_the_job(created: CreatedWorld) -> None:
    world = created.world
    created.begin()
    world.wait(lambda: created.engine.progress(created.job_id).running)

    world.sql("CREATE TABLE copies AS SELECT 'theirs' AS row")
    world.append("x")
    world.wait_end(created.job_id)
    created.go_on()

    end = world.wait_end(created.job_id)
    assert (end.error, end.final) == (
        (
            f"Table lake.{world.namespace}.copies was created by another statement before the "
            "first batch of the job."
        ),
        True,
    )
    created.end()
    assert world.rows("copies") == ["theirs"]


@pytest.mark.slow
def test_a_created_table_that_is_dropped_is_not_created_again(created: CreatedWorld) -> None:
    world = created.world
    world.append("a")
    created.begin()
    world.wait(created.exists)
    world.append("b")
    world.wait_rows(["a", "b"], "copies")
    created.engine.stop(created.job_id, created.definition)
    world.sql("DROP TABLE copies")

    created.go_on()

    end = world.wait_end(created.job_id)
    assert (end.error, end.final) == (
        f"Table lake.{world.namespace}.copies, which the job created, was dropped. Create it again.",
        True,
    )
    created.end()
    assert created.left() == []


def test_what_cannot_appear_with_its_first_batch_is_refused_with_the_way_out(created: CreatedWorld) -> None:
    world = created.world
    prepare = created.engine.prepare
    files = world.creation(
        created.job_id, "CREATE TABLE spark_catalog.default.c USING parquet AS SELECT * FROM flights"
    )
    nowhere = world.creation(created.job_id, "CREATE TABLE lake.nowhere.c AS SELECT * FROM flights")
    world.sql(f"CREATE TABLE daily TBLPROPERTIES ('{TABLE_ID}' = '1') AS SELECT 1 AS a")
    kept = world.creation(created.job_id, "REPLACE TABLE daily AS SELECT * FROM flights")
    saved = world.creation(created.job_id, restored_from="s")
    placed = world.creation(
        created.job_id, f"CREATE TABLE c USING iceberg LOCATION '{created.folder}/c' AS SELECT * FROM flights"
    )

    with pytest.raises(
        Unsupported,
        match=r"A stream cannot create spark_catalog.default.c: .* CREATE TABLE first and INSERT INTO it",
    ):
        prepare(files, created.job_id)
    with pytest.raises(DefinitionInvalid, match=r"create it first: CREATE DATABASE lake.nowhere"):
        prepare(nowhere, created.job_id)
    with pytest.raises(TableProtected, match="daily is a materialized table"):
        prepare(kept, created.job_id)
    with pytest.raises(
        Unsupported, match=r"LOCATION does not go with a stream, .* leave it out, or CREATE TABLE first"
    ):
        prepare(placed, created.job_id)
    with pytest.raises(Unsupported, match=r"RESET 'execution.savepoint.path', or INSERT INTO the table"):
        prepare(saved, created.job_id)
