"""A real Airflow on this machine: its four components as processes, on a free port, gone at the end."""

from __future__ import annotations

import ctypes
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from tests.airflow.rest import AirflowRest
from tests.airflow.settings import PASSWORD, USER, AirflowSettings

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-airflow"
# Name -> (arguments, its name in the health report). Logs are read from the folder: nobody has to serve them.
COMPONENTS = {
    "api-server": (("api-server",), "metadatabase"),
    "scheduler": (("scheduler", "--skip-serve-logs"), "scheduler"),
    "dag-processor": (("dag-processor",), "dag_processor"),
    "triggerer": (("triggerer", "--skip-serve-logs"), "triggerer"),
}
BOOT_S, STOP_S, MIGRATE_S = 180, 20, 180
_PR_SET_PDEATHSIG = 1


class AirflowStack:
    """The components of one Airflow; `stop` and `kill` take some of them or all, `start` brings them back."""

    def __init__(self, settings: AirflowSettings, *, url: str = "", venv: Path = VENV) -> None:
        self.settings, self.url, self.user, self.password = settings, url or settings.url, USER, PASSWORD
        self.rest = AirflowRest(self.url, USER, PASSWORD)
        self._venv = venv
        self._environment = settings.environment(venv)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def migrate(self) -> None:
        """Make the home and the tables of the database."""
        self.settings.prepare()
        self._airflow("db", "migrate")
        if not self.settings.database_url:
            _let_readers_in(self.settings.database)

    def start(self, *names: str) -> None:
        """Start components (default: all that do not run) and wait until Airflow says
        that they are healthy.
        """
        for name in names or COMPONENTS:
            if name not in self._processes:
                self._processes[name] = self._spawn(name)
        self.rest.wait(lambda: self._healthy(names or tuple(COMPONENTS)), BOOT_S)

    def last_lines(self, count: int = 40) -> dict[str, str]:
        """Return, by component, the end of what it wrote, as far as that is on this machine."""
        logs = {name: self.settings.home / f"{name}.log" for name in COMPONENTS}
        return {
            name: "\n".join(self.log(name).splitlines()[-count:])
            for name, log in logs.items()
            if log.exists()
        }

    def stop(self, *names: str) -> None:
        """Let components (default: all) end as at a shutdown; what does not is killed."""
        stopping = {
            name: self._processes.pop(name)
            for name in names or tuple(self._processes)
            if name in self._processes
        }
        for process in stopping.values():
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for process in stopping.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            _kill_group(process)

    def kill(self, *names: str) -> None:
        """Kill components with all their children, at once."""
        for name in names or tuple(self._processes):
            _kill_group(self._processes.pop(name))

    def kill_task(self, task: str) -> None:
        """Kill the process of the task instance of that id, a child of the executor's worker that runs it,
        and nothing else.
        """
        found: list[psutil.Process] = []
        for worker in psutil.Process(self._processes["scheduler"].pid).children():
            # Others may end meanwhile.
            with suppress(psutil.NoSuchProcess):
                if any(task in part for part in worker.cmdline()):
                    found += worker.children(recursive=True)
        assert found, f"no worker runs the task {task}"
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def pid(self, name: str) -> int:
        """Return the id of a component's process."""
        return self._processes[name].pid

    def log(self, name: str) -> str:
        """Return what a component wrote, from its first start on."""
        return (self.settings.home / f"{name}.log").read_text(errors="replace")

    def _spawn(self, name: str) -> subprocess.Popen[bytes]:
        arguments, _ = COMPONENTS[name]
        with (self.settings.home / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [self._venv / "bin" / "airflow", *arguments],
                env=self._environment,
                cwd=self.settings.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )

    def _healthy(self, names: tuple[str, ...]) -> bool:
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(
                    f"{name} of Airflow ended with {process.returncode}:\n{self.log(name)[-4000:]}"
                )
        health = self.rest.health()
        return all(health.get(COMPONENTS[name][1], {}).get("status") == "healthy" for name in names)

    def _airflow(self, *arguments: str) -> None:
        command = [self._venv / "bin" / "airflow", *arguments]
        done = subprocess.run(
            command,
            env=self._environment,
            cwd=self.settings.home,
            capture_output=True,
            text=True,
            timeout=MIGRATE_S,
        )
        if done.returncode:
            raise RuntimeError(
                f"airflow {' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            )


@contextmanager
def running_airflow(settings: AirflowSettings) -> Iterator[AirflowStack]:
    """Yield a healthy Airflow, and end all its processes after that, whatever happens."""
    if not (VENV / "bin" / "airflow").exists():
        raise FileNotFoundError("there is no Airflow in .venv-airflow: run `make .venv-airflow/.ready`")
    stack = AirflowStack(settings)
    try:
        stack.migrate()
        stack.start()
        yield stack
    finally:
        stack.stop()


def _end_with_parent() -> None:
    # A test run that is killed cleans nothing up: Linux then ends the components for it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _let_readers_in(database: Path) -> None:
    """Have SQLite write beside its readers: otherwise each of Airflow's components waits
    for the reads of all others.
    """
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
