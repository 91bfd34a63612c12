from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from threading import Timer

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import QueuePool, create_engine, text

from mt_core.errors import ConfigError, RegistryError
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.registry import database
from mt_core.registry.database import MIGRATIONS, connect, write_ahead
from mt_core.registry.schema import METADATA, NEWEST
from mt_core.registry.store import SqlRegistry
from mt_core.testing.fake_clock import FakeClock
from tests.support.registry_facts import NOON, a_definition, a_run, a_table
from tests.support.registry_steps import all_runs, all_tables, at_once, insert_runs, insert_tables

THREE_GATEWAYS = 3


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a folder%20/registry.db"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
def gateways(url: str) -> Iterator[list[SqlRegistry]]:
    """Several registries on one database, like those of several processes."""
    with ThreadPoolExecutor(THREE_GATEWAYS) as pool:
        registries = list(pool.map(SqlRegistry.open, [url] * THREE_GATEWAYS))
    yield registries
    for registry in registries:
        registry.close()


def test_what_was_committed_is_there_when_the_registry_is_opened_again(url: str) -> None:
    table, run, definition = a_table(), a_run(), a_definition("w1")
    with closing(SqlRegistry.open(url)) as registry:
        insert_tables(registry, table)
        insert_runs(registry, run)
        registry.definitions.put(definition)

    with closing(SqlRegistry.open(url)) as registry:
        found = all_tables(registry), all_runs(registry), registry.definitions.all()

    assert found == ([table], [run], [definition])


def test_the_migrations_make_the_tables_that_the_code_uses(url: str) -> None:
    engine = connect(url)

    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), METADATA)
    engine.dispose()

    assert differences == []


@pytest.fixture
def later_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migrations of this release, and one more that adds a column and fills it."""
    migrations = tmp_path / "later" / "migrations"
    shutil.copytree(MIGRATIONS, migrations)
    (migrations / "versions" / "v9999_later.py").write_text(
        f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9999", {NEWEST!r}

def upgrade():
    op.add_column("runs", sa.Column("later", sa.Text))
    op.execute(sa.text("UPDATE runs SET later = 'of ' || table_id"))
"""
    )
    monkeypatch.setattr(database, "MIGRATIONS", migrations)
    monkeypatch.setattr(database, "NEWEST", "9999")


def test_a_registry_of_an_earlier_release_is_migrated_once_with_what_it_holds(
    url: str, request: pytest.FixtureRequest
) -> None:
    table, definition, run = a_table(), a_definition("w1"), a_run("t-1")
    with closing(SqlRegistry.open(url)) as registry:
        insert_tables(registry, table)
        insert_runs(registry, run)
        registry.definitions.put(definition)

    request.getfixturevalue("later_release")
    with ThreadPoolExecutor(THREE_GATEWAYS) as pool:
        registries = list(pool.map(SqlRegistry.open, [url] * THREE_GATEWAYS))
    for registry in registries[1:]:
        registry.close()

    with closing(registries[0]) as registry:
        assert (all_tables(registry), all_runs(registry)) == ([table], [run])
        assert registry.definitions.all() == [definition]
    assert _read(url, "SELECT later FROM runs") == "of t-1"
    assert _read(url, "SELECT version_num FROM alembic_version") == "9999"


def test_a_connection_that_sqlite_refuses_at_once_writes_ahead_as_soon_as_it_may(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    with (
        closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as holder,
        closing(sqlite3.connect(file, timeout=0)) as refused,
    ):
        holder.execute("BEGIN EXCLUSIVE")
        Timer(0.2, holder.execute, ["COMMIT"]).start()

        write_ahead(refused)

        assert refused.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_several_gateways_give_one_run_for_one_request_key(gateways: list[SqlRegistry]) -> None:
    turn = cycle(gateways)

    def request() -> str:
        with next(turn).transaction() as transaction:
            found = transaction.runs.with_key("t-1", "k")
            if found is None:
                found = a_run(request_key="k")
                transaction.runs.insert(found)
            return found.run_id

    answers = [answer for _ in range(5) for answer in at_once(request)]

    (run,) = all_runs(gateways[0])
    assert set(answers) == {run.run_id}


def test_several_gateways_never_run_two_refreshes_of_one_table(gateways: list[SqlRegistry]) -> None:
    insert_runs(gateways[0], *(a_run(f"t{number}") for number in range(3) for _ in range(4)))
    turn = cycle(gateways)

    def claim() -> RefreshRun | None:
        with next(turn).transaction() as transaction:
            run = transaction.runs.next_claimable()
            if run is not None:
                transaction.runs.replace(run.advance(RunStatus.RUNNING), expected=run)
            return run

    claimed = at_once(claim)

    assert sorted(run.table_id for run in claimed if isinstance(run, RefreshRun)) == ["t0", "t1", "t2"]
    assert [run for run in claimed if not isinstance(run, RefreshRun)] == [None] * (len(claimed) - 3)


def test_several_gateways_see_each_others_queue_before_they_add_to_it(gateways: list[SqlRegistry]) -> None:
    turn = cycle(gateways)

    def request_unless_queued() -> int:
        with next(turn).transaction() as transaction:
            queued = len(transaction.runs.queued("t"))
            if queued == 0:
                transaction.runs.insert(a_run("t"))
            return queued

    seen = at_once(request_unless_queued)

    assert sorted(map(str, seen)) == ["0"] + ["1"] * (len(seen) - 1)


def test_several_gateways_number_their_changes_together_and_see_those_of_the_others(
    gateways: list[SqlRegistry],
) -> None:
    first, second, third = gateways
    tables = [a_table(name) for name in ("a", "b")]
    run = a_run(tables[0].table_id)
    seen: list[tuple[int, set[str]]] = []

    def look(registry: SqlRegistry) -> None:
        before = seen[-1][0] if seen else 0
        with registry.reading() as read:
            seen.append((read.changes.newest(), set(read.changes.tables_after(before))))

    insert_tables(first, tables[0])
    look(second)
    insert_tables(second, tables[1])
    look(third)
    insert_runs(third, run)
    look(first)
    with second.transaction() as tx:
        tx.runs.delete([run.run_id])
        tx.tables.delete(tables[1].table_id)
    look(first)

    ids = [table.table_id for table in tables]
    assert seen == [(1, {ids[0]}), (2, {ids[1]}), (3, {ids[0]}), (5, set(ids))]


def test_many_gateways_never_give_one_number_twice(gateways: list[SqlRegistry]) -> None:
    turn = cycle(gateways)

    def insert() -> int:
        with next(turn).transaction() as tx:
            tx.runs.insert(a_run())
            return tx.changes.newest()

    numbers = [number for _ in range(5) for number in at_once(insert)]

    assert sorted(map(str, numbers)) == sorted(str(number + 1) for number in range(len(numbers)))


def test_closing_a_registry_that_was_read_leaves_one_file(tmp_path: Path) -> None:
    with closing(SqlRegistry.open(f"sqlite:///{tmp_path}/registry.db")) as registry:
        insert_tables(registry, a_table())
        with registry.reading() as read:
            assert len(read.tables.page()) == 1

    assert [file.name for file in tmp_path.iterdir()] == ["registry.db"]


def test_a_given_clock_takes_the_place_of_the_databases(url: str) -> None:
    clock = FakeClock(NOON)
    run = a_run(status=RunStatus.RUNNING, owner="g1", lease_until=NOON + timedelta(seconds=1))

    with closing(SqlRegistry.open(url, clock)) as registry:
        insert_runs(registry, run)
        with registry.transaction() as transaction:
            before = transaction.now(), transaction.runs.expired()
        clock.advance(timedelta(seconds=2))
        with registry.transaction() as transaction:
            after = transaction.now(), transaction.runs.expired()

    assert before == (NOON, [])
    assert after == (NOON + timedelta(seconds=2), [run])


def test_the_newest_migration_is_the_one_that_opening_looks_for() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [NEWEST]


def test_a_registry_of_a_newer_release_is_refused_and_left_as_it_is(url: str) -> None:
    _change(url, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(ConfigError, match="written by a newer release"):
        SqlRegistry.open(url)

    assert _read(url, "SELECT version_num FROM alembic_version") == "9999"


def test_a_process_that_is_killed_loses_nothing_it_committed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    program = f"""
import os, signal
from mt_core.registry.store import SqlRegistry
from tests.support.registry_facts import a_run
registry = SqlRegistry.open({url!r})
for number in range(20):
    with registry.transaction() as transaction:
        transaction.runs.insert(a_run(run_id=f"committed-{{number:02}}"))
with registry.transaction() as transaction:
    transaction.runs.insert(a_run(run_id="lost"))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parent.parent.parent

    killed = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)

    assert killed.returncode == -9
    with closing(SqlRegistry.open(url)) as registry:
        assert [run.run_id for run in all_runs(registry)][::-1] == [
            f"committed-{number:02}" for number in range(20)
        ]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("registry.db", "cannot be read"),
        ("postgresql://me:secret@host:port/db", "cannot be read"),
        ("sqlite://", "absolute path"),
        ("sqlite:///registry.db", "absolute path"),
        ("mysql://me:secret@host/db", "not of a supported kind"),
        ("postgresql+asyncpg://me:secret@host/db", "not of a supported kind"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_way_out(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        SqlRegistry.open(url)

    assert "postgresql://user@host/database" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "registry.db").write_text("not a database at all, but long enough to be looked at" * 20)

    with pytest.raises(RegistryError, match=r"registry\.db failed.*file is not a database"):
        SqlRegistry.open(f"sqlite:///{tmp_path}/registry.db")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=r"folder .*file/sub cannot be created"):
        SqlRegistry.open(f"sqlite:///{tmp_path}/file/sub/registry.db")


def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    with pytest.raises(
        RegistryError, match=r"postgresql\+psycopg://me:\*\*\*@127\.0\.0\.1:1/db failed"
    ) as caught:
        SqlRegistry.open("postgresql://me:secret@127.0.0.1:1/db?application_name=hush")

    assert "secret" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.postgres
def test_a_server_that_ends_the_connection_costs_one_transaction_at_most(postgres_database: str) -> None:
    with closing(SqlRegistry.open(postgres_database)) as registry:
        insert_runs(registry, a_run(run_id="before"))
        _change_open(postgres_database, _END_OTHERS)

        insert_runs(registry, a_run(run_id="after"))

        assert [run.run_id for run in all_runs(registry)] == ["after", "before"]


@pytest.mark.postgres
def test_a_connection_that_ends_in_a_transaction_is_an_error_of_ours(postgres_database: str) -> None:
    def insert_and_lose_the_connection(registry: SqlRegistry) -> None:
        with registry.transaction() as transaction:
            transaction.runs.insert(a_run())
            _change_open(postgres_database, _END_OTHERS)
            transaction.runs.insert(a_run())

    engine = connect(postgres_database)
    with closing(SqlRegistry(engine)) as registry:
        with pytest.raises(RegistryError, match="failed"):
            insert_and_lose_the_connection(registry)

        assert all_runs(registry) == []
        assert isinstance(engine.pool, QueuePool)
        assert engine.pool.checkedout() == 0


_END_OTHERS = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def _change(url: str, statement: str) -> None:
    connect(url).dispose()
    _change_open(url, statement)


def _change_open(url: str, statement: str) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _read(url: str, statement: str) -> object:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = connection.execute(text(statement)).scalar_one()
    engine.dispose()
    return found


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_all_texts_is_refused_with_the_way_out(
    postgres_url: str, encoding: str
) -> None:
    name = f"in_{encoding.lower()}"
    create = f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(create)

        with pytest.raises(
            ConfigError, match=f"has the encoding {encoding}.*ENCODING 'UTF8' TEMPLATE template0"
        ):
            SqlRegistry.open(postgres_url.rpartition("/")[0] + f"/{name}")

        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.postgres
def test_a_connection_to_postgresql_whose_other_end_is_silent_is_given_up(postgres_database: str) -> None:
    engine = connect(postgres_database)
    with closing(engine.raw_connection()) as pooled:
        driver = pooled.driver_connection
        assert driver is not None
        with socket.socket(fileno=os.dup(driver.pgconn.socket)) as wire:
            options = [
                wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            ]
        limit = driver.execute("SHOW statement_timeout").fetchone()
    engine.dispose()

    assert (options, limit) == ([1, 5, 6_000], ("1min",))
