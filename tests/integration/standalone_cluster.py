"""A real Spark cluster on this machine: a standalone master and its workers,
from the jars that PySpark brings.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from mt_core.demo.free_ports import free_port

SPARK_HOME = Path(pyspark.__file__).parent
PACKAGE = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"
SMALL = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
UP_S = 180.0


class StandaloneCluster:
    """A master on a port that stays the same, and *workers* of one core each;
    all of it can die and come back.
    """

    def __init__(self, folder: Path, *, workers: int = 2) -> None:
        self._folder, self._workers = folder, workers
        folder.mkdir(parents=True, exist_ok=True)
        self.secret = secrets.token_urlsafe()
        self._properties = folder / "cluster.conf"
        shared = (
            "spark.authenticate true",
            f"spark.authenticate.secret {self.secret}",
            "spark.network.crypto.enabled true",
        )
        self._properties.write_text("\n".join(shared))
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """What `spark.master` is set to."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings with which a gateway works on this cluster, with one executor of one core
        on each worker.
        """
        return (
            f"spark.master={self.url}",
            f"spark.authenticate.secret={self.secret}",
            "spark.network.crypto.enabled=true",
            "spark.driver.host=127.0.0.1",
            "spark.driver.bindAddress=127.0.0.1",
            "spark.executor.memory=512m",
            "spark.executor.cores=1",
            f"spark.executor.extraJavaOptions={' '.join(SMALL[1:])}",
        )

    def start(self) -> None:
        """Start master and workers, and wait until the workers are registered."""
        ui = ("--webui-port", "0")
        self._launch("master.Master", "--host", "127.0.0.1", "--port", str(self._port), *ui)
        self._wait("I have been elected leader", 1)
        before = self._count("Registering worker")
        for number in range(self._workers):
            folder = str(self._folder / f"worker-{number}")
            offer = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", folder)
            self._launch("worker.Worker", *offer, *ui, self.url)
        self._wait("Registering worker", before + self._workers)

    def stop(self) -> None:
        """Kill master, workers and executors, as a machine that loses its power does."""
        executors = self.executors()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        for executor in executors:
            _kill(executor)
        self._processes.clear()
        (self._folder / "cluster.log").unlink(missing_ok=True)

    def executors(self) -> list[psutil.Process]:
        """Return the processes of executors."""
        found = [child for process in self._processes for child in psutil.Process(process.pid).children()]
        return [child for child in found if EXECUTOR in " ".join(_command(child))]

    def kill_executor(self) -> None:
        """Kill one executor; its worker starts another one."""
        _kill(self.executors()[0])

    def _launch(self, main: str, *arguments: str) -> None:
        java = (
            Path(os.environ["JAVA_HOME"], "bin", "java")
            if os.environ.get("JAVA_HOME")
            else shutil.which("java")
        )
        command = [str(java), *SMALL, "-cp", f"{SPARK_HOME}/jars/*", f"{PACKAGE}.{main}"]
        command += ["--properties-file", str(self._properties), *arguments]
        environ = {
            **os.environ,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with (self._folder / "cluster.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, env=environ, cwd=self._folder, stdout=log, stderr=log)
            )

    def _wait(self, line: str, count: int) -> None:
        deadline = time.monotonic() + UP_S
        while self._count(line) < count:
            assert time.monotonic() < deadline, f"the cluster did not come up: {self.log()[-2000:]}"
            time.sleep(0.1)

    def _count(self, line: str) -> int:
        return self.log().count(line)

    def log(self) -> str:
        """Return what all processes of the cluster have logged."""
        return (self._folder / "cluster.log").read_text(encoding="utf-8", errors="replace")


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2) -> Iterator[StandaloneCluster]:
    """Run a cluster for the block."""
    cluster = StandaloneCluster(folder, workers=workers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
        process.wait(UP_S)
    except psutil.NoSuchProcess:
        return


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
