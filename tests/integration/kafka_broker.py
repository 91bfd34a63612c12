"""A real Kafka for tests: one broker that is its own controller, in a process of its own,
from jars of Maven Central.

Run as a module it fetches the jars and says where they are.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from mt_core.base.cache_folder import cache_dir
from mt_core.demo.free_ports import free_ports
from tests.integration.maven_jars import Environ, fetch, maven_jars
from tests.support.gateway.own_process import wait_until

PACKAGES = ("org.apache.kafka:kafka_2.13:3.9.1",)
# What the resolver leaves out, because Spark has it.
_OF_SPARK = ("scala-library-*.jar", "log4j-*.jar", "slf4j-api-*.jar")
START_S = 180.0
_MEMORY = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def broker_jars(environ: Environ) -> list[Path]:
    """Return the jars of the broker, about 30 MB; raises ConfigError that says where to put them
    where nothing can be fetched.
    """
    maven_jars(environ, "kafka", PACKAGES)
    of_spark = Path(pyspark.__path__[0]) / "jars"
    # What the packages depend on lies beside them.
    return [
        *(cache_dir(environ) / "kafka" / "jars").glob("*.jar"),
        *(jar for pattern in _OF_SPARK for jar in of_spark.glob(pattern)),
    ]


class KafkaBroker:
    """A broker with its data in *folder*; a topic is made, of one partition, at its first use."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._data = folder, folder / "data"
        self._port, self._controller = free_ports(2)
        self._classes = ":".join(map(str, broker_jars(os.environ)))
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the broker, which has what it had."""
        self._data.mkdir(exist_ok=True)
        (self._data / "meta.properties").write_text(
            "version=1\ncluster.id=freshtable-tests-00001\nnode.id=1\n"
        )
        settings = self._folder / "server.properties"
        settings.write_text(_settings(self._data, self._port, self._controller))
        with (self._folder / "broker.log").open("ab") as log:
            process = self._process = subprocess.Popen(
                ["java", *_MEMORY.split(), "-cp", self._classes, "kafka.Kafka", str(settings)],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        wait_until(lambda: _listens(self._port) or process.poll() is not None, "no broker", START_S)
        assert process.poll() is None, (self._folder / "broker.log").read_text()[-2000:]

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def lose_everything(self) -> None:
        """Start again without a topic."""
        self.stop()
        shutil.rmtree(self._data)
        self.start()


@contextmanager
def kafka_broker(folder: Path) -> Iterator[KafkaBroker]:
    """Run a broker for as long as the block lasts."""
    broker = KafkaBroker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def _settings(data: Path, port: int, controller: int) -> str:
    return "\n".join(
        (
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={data}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "num.partitions=1",
            "",
        )
    )


def _listens(port: int) -> bool:
    with socket.socket() as each:
        return each.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(fetch("Kafka", broker_jars))
