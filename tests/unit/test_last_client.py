"""When an embedded gateway ends: after its last client, once nothing goes on without one."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mt_core.app.last_client import LastClient
from mt_core.app.settings import check_exposure
from mt_core.config import load_config
from mt_core.errors import ConfigError, RegistryError
from mt_core.jobs.remaining_work import remaining_work
from mt_core.model.job import JobStatus
from mt_core.model.table import RefreshStatus
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.terminal.presence import Presence
from mt_core.testing.fake_clock import FakeClock
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import a_job, a_run, a_table

pytestmark = pytest.mark.processes

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NEVER = threading.Event()


class Ending:
    """A gateway on *home* with *work*, that counts its ends."""

    def __init__(self, home: Path, work: str = "") -> None:
        self.work, self.ends = work, 0
        self.presence = Presence(home)
        self._last = LastClient(self.presence, work=lambda: self.work, end=self._end)

    def _end(self) -> None:
        self.ends += 1

    def check(self) -> int:
        """Check once, and return how often the gateway has ended."""
        self._last.check()
        return self.ends


@contextmanager
def client_process(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Have a process present at the gateway of *home* until it is killed."""
    code = (
        "import signal, sys, threading; from pathlib import Path; "
        "from mt_core.terminal.presence import Presence;presence = Presence(Path(sys.argv[1])); "
        "print(presence.share(0, threading.Event()), flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code, home], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_a_gateway_ends_after_the_last_of_its_clients(tmp_path: Path) -> None:
    gateway, clients = Ending(tmp_path), [Presence(tmp_path), Presence(tmp_path)]
    assert [client.share(0, NEVER) for client in clients] == [True, True]

    ends = [gateway.check()]
    for client in clients:
        client.release()
        ends.append(gateway.check())

    assert ends == [0, 0, 1]


def test_a_gateway_whose_home_was_removed_ends_whatever_it_works_at(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    gateway = Ending(home, work="a job streams")

    before = gateway.check()
    home.rename(tmp_path / "away")
    home.mkdir()

    assert (before, gateway.check()) == (0, 1)


def test_a_killed_client_is_gone_at_once(tmp_path: Path) -> None:
    gateway = Ending(tmp_path)
    with client_process(tmp_path) as client:
        while_it_lives = gateway.check()
        client.send_signal(signal.SIGKILL)
        client.wait(30)

        afterwards = gateway.check()

    assert (while_it_lives, afterwards) == (0, 1)


def test_a_gateway_with_work_stays_after_its_last_client_and_ends_after_its_work(tmp_path: Path) -> None:
    gateway = Ending(tmp_path, work="1 job runs")

    ends = [gateway.check()]
    client = Presence(tmp_path)
    came = client.share(0, NEVER)
    client.release()
    gateway.work = ""
    ends.append(gateway.check())

    assert (ends, came) == ([0, 1], True)


def test_a_registry_that_cannot_be_read_keeps_the_gateway_open_to_clients(tmp_path: Path) -> None:
    def fail() -> str:
        raise RegistryError("no answer")

    ends: list[str] = []
    last = LastClient(Presence(tmp_path), work=fail, end=lambda: ends.append("end"))

    with pytest.raises(RegistryError):
        last.check()

    assert (ends, Presence(tmp_path).share(0, NEVER)) == ([], True)


def test_a_client_that_comes_while_the_gateway_ends_waits_for_the_end_of_its_process(tmp_path: Path) -> None:
    gateway, client, interrupted = Ending(tmp_path), Presence(tmp_path), threading.Event()
    gateway.check()

    too_early = client.share(0, NEVER)
    interrupted.set()
    given_up = client.share(60, interrupted)
    gateway.presence.release()

    assert (too_early, given_up, client.share(0, NEVER)) == (False, False, True)


def test_a_home_in_which_nothing_can_be_locked_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "clients.lock").mkdir()

    with pytest.raises(
        ConfigError, match=r"clients\.lock cannot be locked: Is a directory; choose a home on a local disk\."
    ):
        Presence(tmp_path).share(0, NEVER)


@pytest.mark.parametrize(
    ("kind", "status", "work"),
    [
        ("INSERT", JobStatus.RUNNING, "1 job runs"),
        ("INSERT", JobStatus.FINISHED, ""),
        ("INSERT", JobStatus.SUSPENDED, ""),
        ("SELECT", JobStatus.RUNNING, ""),
    ],
)
def test_jobs_that_change_data_need_the_gateway_and_queries_do_not(
    kind: str, status: JobStatus, work: str
) -> None:
    registry = MemoryRegistry(FakeClock(NOW))
    in_transaction(registry, lambda tx: tx.jobs.insert(a_job(kind=kind, status=status)))

    assert in_transaction(registry, remaining_work) == work


def test_activated_tables_and_refreshes_under_way_need_the_gateway_and_suspended_tables_do_not() -> None:
    registry = MemoryRegistry(FakeClock(NOW))

    def fill(tx: Transaction) -> None:
        tx.tables.insert(a_table("hourly", table_id="t-1"))
        tx.tables.insert(a_table("daily", table_id="t-2"))
        tx.tables.insert(a_table("monthly", table_id="t-3", status=RefreshStatus.SUSPENDED))
        tx.runs.insert(a_run("t-3"))

    in_transaction(registry, fill)

    assert (
        in_transaction(registry, remaining_work)
        == "2 materialized tables are ACTIVATED, 1 refresh is under way"
    )


def test_a_gateway_behind_a_socket_takes_the_scheduler_in_its_process_only(tmp_path: Path) -> None:
    embedded = "sql-gateway.embedded=true"
    check_exposure(load_config(None, {}, [embedded], tmp_path))

    with pytest.raises(
        ConfigError, match=r"scheduler airflow cannot reach the UNIX socket .*freshtable gateway, or set"
    ):
        check_exposure(load_config(None, {}, [embedded, "workflow-scheduler.type=airflow"], tmp_path))
