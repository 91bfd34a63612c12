"""A registry of an earlier release, opened by this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mt_core.model.table import MaterializedTable
from mt_core.registry.migrations.versions.v0005_stars import has_star
from mt_core.registry.store import SqlRegistry
from tests.support.registry_steps import all_runs, all_tables

# Written with real Spark by the release whose newest migration is 0003.
REGISTRY_0003 = Path(__file__).parent.parent / "assets" / "registry_0003.sql"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[SqlRegistry]:
    """The registry of the earlier release, opened by this one."""
    file = tmp_path / "registry.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(REGISTRY_0003.read_text(encoding="utf-8"))
    with closing(SqlRegistry.open(f"sqlite:///{file}")) as registry:
        yield registry


@pytest.fixture
def tables(registry: SqlRegistry) -> dict[str, MaterializedTable]:
    """The tables of the registry by name."""
    return {table.identifier.name: table for table in all_tables(registry)}


def test_a_query_stored_with_a_star_takes_the_columns_that_its_table_has(
    tables: dict[str, MaterializedTable],
) -> None:
    queries = {name: table.definition.expanded_query for name, table in tables.items()}

    assert (
        queries["star"] == "SELECT `id`, `city`, `country` FROM (\nSELECT * FROM `lake`.`world_1`.`cust`\n)"
    )
    assert queries["whole"] == "SELECT `id`, `city`, `country` FROM (\nTABLE `lake`.`world_1`.`cust`\n)"
    assert queries["of_alias"].startswith(
        "SELECT `id`, `city`, `country`, `up` FROM (\nSELECT c.*, upper(c.city)"
    )
    assert queries["cte"].startswith("SELECT `id`, `city`, `country` FROM (\nWITH c AS (SELECT * FROM")
    assert queries["daily"].startswith("SELECT `id`, `city`, `country`, `more` FROM (\nSELECT *, 'x' AS more")


def test_a_query_stored_without_a_star_stays_as_it_is(tables: dict[str, MaterializedTable]) -> None:
    assert tables["counted"].definition.expanded_query.startswith(
        "SELECT city, count(*) AS n, sum(id * 2) AS twice"
    )
    assert tables["typed"].definition.expanded_query == "SELECT id, city FROM `lake`.`world_1`.`cust`"


def test_all_else_of_a_definition_of_an_earlier_release_is_read_as_it_was(
    tables: dict[str, MaterializedTable],
) -> None:
    daily = tables["daily"]

    assert len(tables) == 8
    assert (daily.definition.original_query, daily.definition.query_types, daily.definition.sources) == (
        "SELECT *, 'x' AS more FROM cust", {}, (),
    )  # fmt: skip
    assert daily.rebuild_due is not None
    assert dict(tables["star"].dynamic_options) == {"sink.paralellism": "3"}


def test_how_the_refreshes_of_an_earlier_release_got_their_rows_is_not_known(registry: SqlRegistry) -> None:
    runs = all_runs(registry)

    assert len(runs) == 9
    assert {
        (run.strategy, run.rows_inserted, run.rows_updated, run.rows_deleted, run.bytes_read) for run in runs
    } == {(None, None, None, None, None)}


@pytest.mark.parametrize(
    "query",
    ["select distinct * from t", "SELECT a,* FROM t", "SELECT t . * FROM t", "SELECT `a b`.* FROM `a b`",
     "TABLE t", "SELECT struct(*) FROM t", "SELECT /* all */ * FROM t", "FROM t SELECT *",
     "SELECT 1 UNION ALL TABLE `t`"],
)  # fmt: skip
def test_a_star_is_seen(query: str) -> None:
    assert has_star(query)


@pytest.mark.parametrize(
    "query",
    ["SELECT count(*) FROM t", "SELECT COUNT ( * ) FROM t", "SELECT a * b FROM t",
     "SELECT '*' FROM t -- SELECT *", "SELECT (a) * 2, `x.*` FROM t", "SELECT a FROM t /* , * */",
     "SELECT 2*3 FROM my_table"],
)  # fmt: skip
def test_what_is_no_star_of_columns_is_left_alone(query: str) -> None:
    assert not has_star(query)
