"""A real gateway in a separate process, which a test can kill at a step of a refresh and restart.

As a module it is `freshtable gateway` with one addition: before each step of a run it checks the file
`death.json` in its home. If the file names this table and step, it deletes the file and kills itself, or its
JVM, with SIGKILL.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import psutil

from mt_core.client.http import GatewayClient
from mt_core.demo.process import GatewayProcess
from mt_core.errors import GatewayError
from tests.class_archive import jvm_options

ROOT = Path(__file__).parents[3]
# Several times what a busy machine needs.
START_S = 180.0
WAIT_S = 180.0
POLL_S, MOST_POLL_S = 0.1, 1.0
FAST = (
    "sql-gateway.endpoint.rest.port=0",
    f"spark.driver.extraJavaOptions={jvm_options()}",
    "spark.sql.shuffle.partitions=2",
    "spark.driver.memory=1g",
)
Row = dict[str, Any]
Victim = Literal["gateway", "jvm"]


class GatewayUnderTest:
    """A home folder and its gateway process, if running. Its clients send *token*, if there is one."""

    def __init__(self, home: Path, settings: Sequence[str] = (), token: str | None = None) -> None:
        self.home, self.url, self._token = home, "", token
        home.mkdir(parents=True, exist_ok=True)
        options = [part for setting in (*FAST, *settings) for part in ("-D", setting)]
        self.command = [sys.executable, "-m", __name__, "--home", str(home), *options]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clean up all processes and temporary files, whether the test or its fixture failed or not."""
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.home / "spark-tmp", ignore_errors=True)

    # ----------------------------------------------------------------------------------------- life and death

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the gateway was not started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it reports that it is ready."""
        self._process = launch(self.command, self.home / "stderr.txt")
        self.url = ready_url(self._process)

    def stop(self) -> int:
        """Stop the gateway in order and return its exit code. Harmless if it has ended already."""
        if self.running:
            self.process.terminate()
        return self.wait_death()

    def kill(self) -> None:
        """Kill the process, as the kernel does when memory is short."""
        self.process.kill()
        self.wait_death()

    def wait_death(self) -> int:
        code = self.process.wait(WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def die_before(self, step: str, *, table: str, victim: Victim = "gateway") -> None:
        """Kill the gateway or its JVM just before the next run of *table* takes *step*."""
        death = {"step": step, "table": table, "victim": victim}
        staged = self.home / "death.tmp"
        staged.write_text(json.dumps(death), encoding="utf-8")
        staged.replace(_death_file(self.home))

    @property
    def jvm_pid(self) -> int:
        """The process id of the gateway's Spark child process."""
        found = [
            child.pid for child in psutil.Process(self.process.pid).children(recursive=True) if is_java(child)
        ]
        assert found, "the gateway has no JVM"
        return found[0]

    def lose_spark(self) -> None:
        """Kill the JVM, and wait until another one responds."""
        os.kill(self.jvm_pid, signal.SIGKILL)
        self.wait_for_spark()

    def lose(self, victim: Victim) -> None:
        """Kill the gateway and start it again, or kill its JVM. Wait until Spark responds."""
        if victim == "jvm":
            self.lose_spark()
        else:
            self.kill()
            self.start()
            self.wait_for_spark()

    def wait_for_spark(self) -> None:
        """Wait until Spark responds, even if the gateway has not noticed yet that the last JVM was lost."""
        wait_until(self._spark_answers, "Spark never came back")

    def _spark_answers(self) -> bool:
        try:
            return self.sql("SELECT 1 AS one") == [{"one": 1}]
        except GatewayError:
            return False

    # ---------------------------------------------------------------------------------------------------- use

    @contextmanager
    def client(self) -> Iterator[GatewayClient]:
        """Yield a client with its own session."""
        with GatewayClient(self.url, self._token) as client:
            yield client

    def sql(self, statement: str) -> list[Row]:
        """Execute a statement in a session of its own and return its rows."""
        with self.client() as client:
            return rows_of(client, statement)

    def info(self) -> int:
        """Return the status code of GET /v3/info."""
        return httpx.get(f"{self.url}/v3/info", timeout=WAIT_S).status_code

    def runs(self, table: str) -> list[Row]:
        """Return the ledger of *table*, oldest run first."""
        return list(reversed(self.sql(f"SHOW REFRESHES FOR {table} EXTENDED LIMIT 1000")))

    def run(self, table: str, handle: str) -> Row:
        return next(run for run in self.runs(table) if run["refresh"] == handle)

    def wait_ended(self, table: str, handle: str) -> Row:
        """Return the run of *handle* when it has ended."""
        wait_until(
            lambda: self.run(table, handle)["status"] not in ("QUEUED", "RUNNING"), f"{handle} never ended"
        )
        return self.run(table, handle)

    def published(self, table: str, handle: str) -> int:
        """Return the number of snapshots of the run *handle* among the ancestors of main."""
        found = self.sql(
            f"SELECT count(*) AS n FROM lake.default.{table}.history h "
            f"JOIN lake.default.{table}.snapshots s USING (snapshot_id) "
            # Commits that change no rows repeat the run.
            "WHERE h.is_current_ancestor AND s.operation <> 'replace' "
            f"AND s.summary['freshtable.run-id'] = '{handle}'"
        )
        return int(found[0]["n"])

    def refs(self, table: str) -> list[str]:
        """Return the names of the branches and tags of the storage table."""
        return sorted(row["name"] for row in self.sql(f"SELECT name FROM lake.default.{table}.refs"))


@contextmanager
def started_gateway(home: Path, *settings: str) -> Iterator[str]:
    """Yield the URL of a gateway that was started like the demo, on a free port. It is stopped at the end."""
    process = GatewayProcess(home, ["sql-gateway.endpoint.rest.port=0", *settings])
    try:
        yield process.start()
    finally:
        process.stop()


def rows_of(client: GatewayClient, statement: str) -> list[Row]:
    """Execute a statement to its end and return its rows by column name."""
    return [
        dict(zip([column.name for column in page.columns], row, strict=True))
        for page in client.pages(client.execute(statement))
        for row in page.rows
    ]


def launch(
    command: Sequence[str], said: Path, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a gateway process. Its stderr is appended to the file *said*, so that it cannot block."""
    with said.open("a", encoding="utf-8") as errors:
        return subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True
        )


def ready_url(process: subprocess.Popen[str]) -> str:
    """Return the URL in the process's ready line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "ready at" in line, f"the gateway did not start: {line or process.wait(WAIT_S)}"
    return line.split()[-1]


def wait_until(done: Callable[[], bool], why: str, timeout_s: float = WAIT_S) -> None:
    """Wait until *done* returns True, or fail with *why* on timeout.

    The checks themselves take up to half of the time.
    """
    deadline, asked = time.monotonic() + timeout_s, time.monotonic()
    while not done():
        answered = time.monotonic()
        assert answered < deadline, why
        time.sleep(min(max(POLL_S, answered - asked), MOST_POLL_S))
        asked = time.monotonic()


def alive(pid: int) -> bool:
    """Return whether the process runs. A zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_java(process: psutil.Process) -> bool:
    """Return whether the process is a JVM. One that has ended is not."""
    try:
        return "java" in process.name()
    except psutil.NoSuchProcess:
        return False


def _death_file(home: Path) -> Path:
    return home / "death.json"


def main(arguments: Sequence[str]) -> int:
    from mt_core.app.serve import serve
    from mt_core.config import load_config
    from mt_core.tables.runs.ledger import ClaimedRun

    home = Path(arguments[1])
    config = load_config(None, os.environ, tuple(arguments[3::2]), home)

    def watch(claimed: ClaimedRun, step: str) -> None:
        death = _death_file(home)
        if not death.exists():
            return
        told = json.loads(death.read_text(encoding="utf-8"))
        if (told["table"], told["step"]) != (claimed.table.identifier.name, step):
            return
        death.unlink()
        if told["victim"] == "gateway":
            os.kill(os.getpid(), signal.SIGKILL)
        for child in psutil.Process().children(recursive=True):
            if is_java(child):
                child.kill()
                child.wait(WAIT_S)

    return serve(config, os.environ, lambda line: print(line, flush=True), watch=watch)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
