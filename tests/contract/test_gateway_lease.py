"""Only one gateway at a time uses a registry: the next one waits, takes over, or is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from mt_core.app import process_identity
from mt_core.app.lease import RegistryLease, lease_of
from mt_core.errors import MtError, RegistryError, RegistryFull, RegistryInUse
from mt_core.model.run import RunStatus
from mt_core.registry.store import SqlRegistry
from mt_core.tables.registry import Registry
from mt_core.tables.upkeep.gateways import LEASE, ended_owners
from mt_core.testing.fake_clock import FakeClock
from tests.support.gateway.whole import empty_registry
from tests.support.memory_registry import MemoryRegistry, MemoryTransaction
from tests.support.registry_facts import a_run
from tests.support.registry_steps import insert_runs

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FIRST, SECOND = "http://127.0.0.1:8083", "http://127.0.0.1:8084"
ROOT = Path(__file__).resolve().parents[2]


class SteppedClock(FakeClock):
    """A clock whose waits call *on_wait* and return at once."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self.on_wait: Callable[[], object] = lambda: None

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        assert instant is not None
        self.advance(max(instant - self.now(), timedelta()))
        self.on_wait()
        return event.is_set()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(NOW)


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def registry(request: pytest.FixtureRequest, clock: SteppedClock, tmp_path: Path) -> Iterator[Registry]:
    if request.param == "memory":
        yield MemoryRegistry(clock)
        return
    sqlite = f"sqlite:///{tmp_path}/registry.db"
    if request.param == "sqlite":
        (tmp_path / "registry.db").write_bytes(empty_registry())
    url = sqlite if request.param == "sqlite" else str(request.getfixturevalue("postgres_database"))
    with closing(SqlRegistry.open(url, clock)) as opened:
        yield opened


class Gateways:
    """Creates leases of several gateways on one registry, and records which are lost."""

    def __init__(self, registry: Registry, clock: SteppedClock) -> None:
        self.registry, self.clock = registry, clock
        self.lost: list[MtError] = []

    def lease(self, url: str = FIRST, **facts: object) -> RegistryLease:
        lease = replace(lease_of(f"owner of {url}", url), **facts)  # type: ignore[arg-type]
        return RegistryLease(self.registry, lease, clock=self.clock, on_lost=self.lost.append)

    def taken(self, url: str = FIRST, **facts: object) -> RegistryLease:
        lease = self.lease(url, **facts)
        assert lease.take(threading.Event())
        return lease

    def living(self) -> list[str]:
        with self.registry.transaction() as tx:
            return [gateway.url for gateway in tx.gateways.all() if gateway.lease_until > tx.now()]


@pytest.fixture
def gateways(registry: Registry, clock: SteppedClock) -> Gateways:
    return Gateways(registry, clock)


def test_a_second_gateway_is_refused_with_the_address_of_the_first(
    gateways: Gateways, clock: SteppedClock
) -> None:
    first = gateways.taken(FIRST, host="here", pid=12, machine="elsewhere")
    waits: list[None] = []
    clock.on_wait = lambda: first.renew() if len(waits) == 3 else waits.append(None)

    with pytest.raises(
        RegistryInUse, match=r"used by the gateway at http://127.0.0.1:8083 \(process 12 on here\)"
    ):
        gateways.taken(SECOND)

    assert (gateways.living(), gateways.lost) == ([FIRST], [])


def test_a_living_lease_is_waited_out_and_said(
    gateways: Gateways, clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    gateways.taken(FIRST, machine="elsewhere")

    gateways.taken(SECOND)

    assert clock.now() - NOW == LEASE
    assert gateways.living() == [SECOND]
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "The registry is held by the gateway at http://127.0.0.1:8083"
    ]


def test_a_gateway_that_is_stopped_while_it_waits_takes_nothing(
    gateways: Gateways, clock: SteppedClock
) -> None:
    gateways.taken(FIRST, machine="elsewhere")
    stop = threading.Event()
    clock.on_wait = stop.set
    second = gateways.lease(SECOND)

    assert not second.take(stop)
    second.release()

    assert gateways.living() == [FIRST]


def test_a_process_that_has_ended_on_this_machine_is_not_waited_for(
    gateways: Gateways, clock: SteppedClock
) -> None:
    gateways.taken(FIRST, started="of an earlier process with this id")

    gateways.taken(SECOND)

    assert (clock.now(), gateways.living()) == (NOW, [SECOND])


def test_a_process_of_another_machine_counts_as_alive_until_its_lease_ends(
    gateways: Gateways, clock: SteppedClock
) -> None:
    gateways.taken(FIRST, machine="elsewhere", started="long ago")

    gateways.taken(SECOND)

    assert clock.now() - NOW == LEASE


def test_a_gateway_that_has_stopped_is_not_waited_for(gateways: Gateways, clock: SteppedClock) -> None:
    gateways.taken(FIRST).release()

    gateways.taken(SECOND)

    assert (clock.now(), gateways.living()) == (NOW, [SECOND])


def test_what_a_gateway_had_leased_is_free_once_its_own_lease_has_ended(
    gateways: Gateways, registry: Registry
) -> None:
    run = a_run(status=RunStatus.RUNNING, owner=f"owner of {FIRST}", lease_until=NOW + timedelta(hours=1))
    insert_runs(registry, run)
    first = gateways.taken(FIRST)
    with registry.transaction() as tx:
        before = tx.runs.expired()

    first.release()
    gateways.taken(SECOND)

    with registry.transaction() as tx:
        assert (before, tx.runs.expired()) == ([], [run])
        assert ended_owners(tx) == {f"owner of {FIRST}"}


def test_a_gateway_whose_lease_was_taken_ends_itself_naming_the_other(
    gateways: Gateways, clock: SteppedClock
) -> None:
    first = gateways.taken(FIRST, machine="elsewhere")
    gateways.taken(SECOND)

    first.renew()

    assert [type(error) for error in gateways.lost] == [RegistryInUse]
    assert SECOND in str(gateways.lost[0])
    assert gateways.living() == [SECOND]
    first.release()
    assert gateways.living() == [SECOND]


def test_a_lease_that_ran_out_is_renewed_when_nobody_took_over(
    gateways: Gateways, clock: SteppedClock
) -> None:
    unused, first = gateways.lease(FIRST), gateways.taken(FIRST)
    acquired = first.expires_at
    clock.advance(timedelta(minutes=5))

    first.renew()

    assert (gateways.living(), gateways.lost) == ([FIRST], [])
    assert (unused.expires_at, acquired, first.expires_at) == (None, NOW + LEASE, clock.now() + LEASE)


def test_a_gateway_whose_database_is_away_for_longer_than_the_lease_ends_itself(gateways: Gateways) -> None:
    first = gateways.taken(FIRST)
    first.renew()
    first.check()
    gateways.registry.close()

    for _ in range(3):
        assert gateways.lost == []
        with pytest.raises(RegistryError):
            first.renew()
        first.check()

    assert [type(error) for error in gateways.lost] == [RegistryError]
    assert "cannot renew its lease of the registry" in str(gateways.lost[0])
    assert first.expires_at == NOW + LEASE


def test_a_gateway_whose_database_does_not_answer_ends_itself(gateways: Gateways) -> None:
    first = gateways.taken(FIRST)

    for _ in range(6):
        assert gateways.lost == []
        first.check()

    assert "its database does not respond" in str(gateways.lost[0])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"this account may not mount a disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk of *folder* with one file."""
    file = folder / "filler"
    with suppress(OSError), file.open("wb", buffering=0) as filler:
        while filler.write(bytes(512)):
            pass
    return file


def test_a_gateway_on_a_full_disk_says_so_and_goes_on_when_there_is_room(
    small_disk: Path, clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    database = small_disk / "registry.db"
    database.write_bytes(empty_registry())
    with closing(SqlRegistry.open(f"sqlite:///{database}", clock)) as registry:
        gateways = Gateways(registry, clock)
        first = gateways.taken(FIRST)
        first.renew()
        filler, written = fill(small_disk), 0
        # Until SQLite's write-ahead log has no room left, writes succeed.
        while not first.trouble() and written < 1000:
            first.renew()
            written += 1
        troubles = []
        for _ in range(20):
            clock.advance(LEASE)
            first.renew()
            first.check()
            troubles.append(first.trouble().partition(":")[0])
        filler.unlink()
        first.renew()
        first.check()

        assert set(troubles) == {"DISK_FULL"}
        assert (gateways.lost, first.trouble(), gateways.living()) == ([], "", [FIRST])
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in said] == ["DISK_FULL", "The registry can be written again."]
    assert str(database) in said[0]


def test_a_gateway_that_finds_its_lease_taken_after_its_disk_was_full_ends_itself(
    clock: SteppedClock,
) -> None:
    registry = FullRegistry(clock)
    gateways = Gateways(registry, clock)
    first = gateways.taken(FIRST, machine="elsewhere")
    registry.full = True
    for _ in range(10):
        first.renew()
        first.check()
    registry.full = False
    gateways.taken(SECOND)

    first.renew()

    assert [type(error) for error in gateways.lost] == [RegistryInUse]


class FullRegistry(MemoryRegistry):
    """A registry whose disk can become full."""

    full = False

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        if self.full:
            raise RegistryFull("The disk of registry memory is full; make room there.")
        with super().transaction() as tx:
            yield tx


OTHER_PROCESS = """
import sys, threading
from mt_core.app.lease import RegistryLease, lease_of
from mt_core.clock import SystemClock
from mt_core.registry.store import SqlRegistry

lease = lease_of("another process", "http://127.0.0.1:8083")
held = RegistryLease(SqlRegistry.open(sys.argv[1]), lease, clock=SystemClock(), on_lost=print)
held.take(threading.Event())
print("taken", flush=True)
for _ in sys.stdin:
    held.renew()
    print("renewed", flush=True)
"""


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_two_processes_on_one_registry_by_its_own_clock(
    kind: str, request: pytest.FixtureRequest, clock: SteppedClock, tmp_path: Path
) -> None:
    sqlite = f"sqlite:///{tmp_path}/registry.db"
    url = sqlite if kind == "sqlite" else str(request.getfixturevalue("postgres_database"))
    command = [sys.executable, "-c", OTHER_PROCESS, url]
    with (
        closing(SqlRegistry.open(url)) as registry,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as other,
    ):
        assert other.stdout is not None
        assert other.stdin is not None
        gateways, said = Gateways(registry, clock), [other.stdout.readline()]

        def renew() -> None:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write("renew\n")
            other.stdin.flush()
            said.append(other.stdout.readline())

        clock.on_wait = renew
        with pytest.raises(RegistryInUse, match=f"gateway at {FIRST} .process {other.pid} on "):
            gateways.taken(SECOND)
        other.kill()
        other.wait()
        clock.on_wait = lambda: pytest.fail("a dead process was waited for")
        gateways.taken(SECOND)

        assert (said, gateways.living()) == (["taken\n", "renewed\n"], [SECOND])


def test_a_process_is_known_by_its_start_and_a_dead_one_by_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        alive = process_identity.start_of(process.pid), process_identity.start_of(process.pid)
        process.kill()
    dead = process_identity.start_of(process.pid)

    assert alive[0] == alive[1] != ""
    assert process_identity.start_of(os.getpid()) not in ("", alive[0])
    assert dead == ""


@pytest.mark.parametrize("hidden_as", [psutil.NoSuchProcess, psutil.AccessDenied])
def test_a_process_that_the_system_hides_counts_as_running_while_it_takes_signals(
    monkeypatch: pytest.MonkeyPatch, hidden_as: type[psutil.Error]
) -> None:
    def hide(pid: int) -> psutil.Process:
        raise hidden_as(pid)

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = process_identity.start_of(process.pid)
        seen = (
            process_identity.is_running(process.pid, started),
            process_identity.is_running(process.pid, "another"),
        )
        with monkeypatch.context() as hidden:
            # Like hidepid, under which other processes are invisible.
            hidden.setattr(psutil, "Process", hide)
            unseen = process_identity.is_running(process.pid, started)
            process.kill()
            process.wait()
            ended = process_identity.is_running(process.pid, started)

    assert (seen, unseen, ended) == ((True, False), True, False)
    assert not process_identity.is_running(process.pid, started)
