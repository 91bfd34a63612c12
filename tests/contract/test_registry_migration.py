"""A registry of release 0.1.0 is migrated with what it holds, and by the gateway that holds its lease."""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mt_core.app.lease import RegistryLease, lease_of
from mt_core.errors import ConfigError, MtError, RegistryInUse
from mt_core.model.run import RunKind
from mt_core.registry.rows import instant_text
from mt_core.registry.schema import NEWEST
from mt_core.registry.store import SqlRegistry
from mt_core.tables.registry import Transaction
from mt_core.tables.upkeep.gateways import LEASE
from mt_core.testing.fake_clock import FakeClock
from tests.releases.place import DUMP, archive, versions
from tests.support.earlier_registry import SCHEMA, earlier_row, rows_of, schema_of, write_earlier_registry
from tests.support.registry_facts import NOON
from tests.support.registry_steps import all_runs, all_tables

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
# The fewest ended runs in the registry of a release.
ENDED_RUNS = 5
STARTED, FINISHED = "2026-03-01T12:00:00.000000Z", "2026-03-01T13:00:00.000000Z"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/registry.db"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    return FakeClock(NOW)


def run_row(run_id: str, **changes: Any) -> dict[str, Any]:
    return earlier_row("runs", run_id=run_id, request_key=None, **changes)


def test_the_instants_of_stored_runs_become_columns_and_their_bodies_stay(url: str) -> None:
    body = json.loads(earlier_row("runs")["body"])
    queued = {
        name: value for name, value in body.items() if name not in ("started_at", "finished_at", "error")
    }
    # Options may have any names.
    running = body | {"options": {"finished_at": "never"}, "error": '"finished_at": "x"'}
    del running["finished_at"]
    bodies = {
        "ended": body,
        "queued": queued,
        "running": running,
        "later": body | {"from_the_future": 1},
    }
    rows = [run_row(run_id, body=json.dumps(each, sort_keys=True)) for run_id, each in bodies.items()]
    write_earlier_registry(
        url,
        runs=[*rows, run_row("damaged", body="{")],
        materialized_tables=[earlier_row("materialized_tables")],
    )

    with closing(SqlRegistry.open(url)) as registry, registry.transaction() as tx:
        with tx.past_unreadable() as unreadable:
            runs = tx.runs.newest()
        newest, [table] = tx.changes.newest(), tx.tables.page()
        tx.tables.next_claim(table.table_id)
        following = tx.changes.newest()
    stored = rows_of(url, "SELECT run_id, started_at, finished_at, reason_code, changed, body FROM runs")

    nothing = {"reason_code": None, "changed": 0}
    assert {
        row["run_id"]: {name: row[name] for name in row if name not in ("run_id", "body")} for row in stored
    } == {
        "ended": {"started_at": STARTED, "finished_at": FINISHED, **nothing},
        "queued": {"started_at": None, "finished_at": None, **nothing},
        "running": {"started_at": STARTED, "finished_at": None, **nothing},
        "later": {"started_at": STARTED, "finished_at": FINISHED, **nothing},
        "damaged": {"started_at": None, "finished_at": None, **nothing},
    }
    assert {run.run_id: (run.started_at, run.finished_at, run.reason_code) for run in runs} == {
        "ended": (NOON, NOON + timedelta(hours=1), None),
        "queued": (None, None, None),
        "running": (NOON, None, None),
    }
    assert len(unreadable) == 2
    assert {row["run_id"]: row["body"] for row in stored} == {
        **{row["run_id"]: row["body"] for row in rows},
        "damaged": "{",
    }
    assert (newest, following) == (0, 1)


@pytest.mark.parametrize("version", versions())
def test_every_run_that_a_release_has_stored_keeps_its_instants(
    version: str, url: str, tmp_path: Path
) -> None:
    registry_kind = "sqlite" if url.startswith("sqlite") else "postgres"
    with tarfile.open(archive(version, registry_kind)) as packed:
        stored = "registry.db" if registry_kind == "sqlite" else DUMP
        packed.extract(stored, tmp_path, filter="data")
    if registry_kind == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute((tmp_path / DUMP).read_bytes())
    bodies = {row["run_id"]: json.loads(row["body"]) for row in rows_of(url, "SELECT run_id, body FROM runs")}

    with closing(SqlRegistry.open(url)) as registry, registry.reading() as read:
        runs = read.runs.newest(kinds=tuple(RunKind))

    assert schema_of(url) == NEWEST
    assert {run.run_id for run in runs} == set(bodies)
    for run in runs:
        instants = {"started_at": run.started_at, "finished_at": run.finished_at}
        expected = {name: bodies[run.run_id].get(name) for name in instants}
        assert {name: at and instant_text(at) for name, at in instants.items()} == expected
    assert sum(run.finished_at is not None for run in runs) >= ENDED_RUNS


def test_a_stored_run_is_changed_as_any_other(url: str) -> None:
    write_earlier_registry(url, runs=[run_row("r")])

    with closing(SqlRegistry.open(url)) as registry:
        [run] = all_runs(registry)
        changed = replace(run, finished_at=NOON)
        with registry.transaction() as tx:
            tx.runs.replace(changed, expected=run)

        assert all_runs(registry) == [changed]
    [row] = rows_of(url, "SELECT body, finished_at, changed FROM runs")
    assert "finished_at" not in json.loads(row["body"])
    assert (row["finished_at"], row["changed"]) == (STARTED, 1)


# ------------------------------------------------------------------------------------- the lease comes first


def gateway_row(lease_until: datetime, **facts: Any) -> dict[str, Any]:
    """Return the lease of a gateway of release 0.1.0 on another machine."""
    body = {
        "version": 1,
        "url": "http://there:8083",
        "host": "there",
        "machine": "m",
        "pid": 7,
        "started": "1",
    }
    body |= facts
    return {"owner": "earlier", "lease_until": instant_text(lease_until), "body": json.dumps(body)}


def opened(url: str, clock: FakeClock) -> SqlRegistry:
    """Open a registry as a gateway does before it has the lease."""
    return SqlRegistry.open(url, clock, migrate=False)


def lease_on(registry: SqlRegistry, clock: FakeClock, lost: list[MtError] | None = None) -> RegistryLease:
    on_lost = (lost if lost is not None else []).append
    return RegistryLease(registry, lease_of("later", "http://here:8083"), clock=clock, on_lost=on_lost)


class RenewingClock(FakeClock):
    """A clock whose waits move it, during which another gateway renews its lease in the registry at *url*."""

    def __init__(self, start: datetime, url: str) -> None:
        super().__init__(start)
        self._url = url

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        assert instant is not None
        self.advance(max(instant - self.now(), timedelta()))
        with closing(opened(self._url, self)) as registry, registry.transaction() as tx:
            [lease] = tx.gateways.all()
            tx.gateways.put(replace(lease, lease_until=self.now() + LEASE))
        return event.is_set()


def test_a_gateway_of_this_release_is_refused_by_a_living_one_of_an_earlier_and_migrates_nothing(
    url: str,
) -> None:
    write_earlier_registry(url, gateways=[gateway_row(NOW + LEASE)], runs=[run_row("r")])
    clock = RenewingClock(NOW, url)

    with (
        closing(opened(url, clock)) as registry,
        pytest.raises(RegistryInUse, match="used by the gateway at http://there:8083"),
    ):
        lease_on(registry, clock).take(threading.Event())

    assert schema_of(url) == SCHEMA
    assert "changed" not in rows_of(url, "SELECT * FROM runs")[0]
    assert [row["owner"] for row in rows_of(url, "SELECT owner FROM gateways")] == ["earlier"]


def test_a_gateway_migrates_the_registry_once_the_earlier_one_has_ended_and_holds_the_lease_meanwhile(
    url: str, clock: FakeClock
) -> None:
    write_earlier_registry(
        url,
        gateways=[gateway_row(NOW - LEASE)],
        materialized_tables=[earlier_row("materialized_tables")],
        runs=[run_row("r")],
    )

    def hold(tx: Transaction) -> None:
        # As if the migration took longer than the lease.
        clock.advance(2 * LEASE)
        lease.hold(tx)

    with closing(opened(url, clock)) as registry:
        lease = lease_on(registry, clock)
        assert lease.take(threading.Event())
        before = schema_of(url)
        registry.migrate(hold)
        registry.migrate(hold)
        with registry.transaction() as tx:
            held = {each.owner: each.lease_until - tx.now() for each in tx.gateways.all()}
        found = [len(all_tables(registry)), [run.run_id for run in all_runs(registry)]]

    assert (before, schema_of(url)) == (SCHEMA, NEWEST)
    assert held["later"] == LEASE
    assert found == [1, ["r"]]


def test_a_gateway_whose_lease_was_taken_before_it_migrates_ends_without_a_change(
    url: str, clock: FakeClock
) -> None:
    write_earlier_registry(url)

    with closing(opened(url, clock)) as registry:
        lease = lease_on(registry, clock)
        lease.take(threading.Event())
        clock.advance(2 * LEASE)
        other = RegistryLease(
            registry, lease_of("other", "http://other:8083"), clock=clock, on_lost=[].append
        )
        other.take(threading.Event())
        with pytest.raises(RegistryInUse, match=r"was taken by the gateway at http://other:8083"):
            registry.migrate(lease.hold)

    assert schema_of(url) == SCHEMA


def test_a_gateway_refuses_the_registry_of_a_newer_release_before_it_takes_the_lease(
    url: str, clock: FakeClock
) -> None:
    write_earlier_registry(url, alembic_version=[])
    with closing(opened(url, clock)) as registry, registry.transaction() as tx:
        tx.statements.connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(ConfigError, match="written by a newer release"):
        opened(url, clock)

    assert rows_of(url, "SELECT owner FROM gateways") == []


def test_a_gateway_creates_a_registry_before_it_takes_the_lease(url: str, clock: FakeClock) -> None:
    with closing(opened(url, clock)) as registry:
        assert lease_on(registry, clock).take(threading.Event())

    assert schema_of(url) == NEWEST
