"""Metrics: the listeners and readers that fill the families, and the answer to a scrape."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime

from mt_core.clock import Clock
from mt_core.metrics import families
from mt_core.metrics.backlog import BacklogGauges
from mt_core.metrics.exposition import Format, exposition
from mt_core.metrics.instruments import Instruments
from mt_core.metrics.refreshes import RefreshCounters
from mt_core.metrics.spark import SparkGauges
from mt_core.metrics.streams import StreamCounters
from mt_core.metrics.tables import TableGauges, TableSelection
from mt_core.metrics.work import Work, WorkPorts
from mt_core.tables.engine import EngineState
from mt_core.tables.events import Fact
from mt_core.tables.overview.overview import Overview
from mt_core.tables.registry import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPorts:
    """What metrics are read from.

    `reading` begins a read of the registry that delays no transaction. `scheduler` is the type of the
    gateway's scheduler, `release` and `spark` are the versions of Freshtable and Spark.
    """

    overview: Overview
    reading: Callable[[], AbstractContextManager[Transaction]]
    clock: Clock
    engine: EngineState
    work: WorkPorts
    scheduler: str
    release: str
    spark: str
    started_at: datetime
    tables: TableSelection = field(default_factory=TableSelection)


class Metrics:
    """The metrics of a gateway. Thread-safe, except that `start` precedes the first fact.

    `work` counts what is reported to it. `backlog` and `spark` show what loops have them read.
    """

    def __init__(self, ports: MetricsPorts) -> None:
        self.instruments = Instruments()
        self.work = Work(self.instruments, ports.work)
        self.backlog = BacklogGauges(self.instruments, ports.reading)
        self.spark = SparkGauges(self.instruments, ports.engine)
        self._overview, self._reading = ports.overview, ports.reading
        self._tables = TableGauges(ports.tables)
        self._streams = StreamCounters(self.instruments, ports.clock)
        self._listeners = (RefreshCounters(self.instruments, ports.scheduler), self._streams)
        self.instruments.read(families.BUILD, lambda: {(ports.release, ports.spark): 1})
        self.instruments.gauge(families.STARTED_AT).set(ports.started_at.timestamp())

    def start(self) -> None:
        """Count the streaming jobs that an earlier gateway has left."""
        with self._reading() as tx, tx.past_unreadable():
            self._streams.begin(tx.jobs.streams())

    def hear(self, fact: Fact) -> None:
        """Count *fact*: the listener of the events of the tables."""
        for listener in self._listeners:
            listener(fact)

    def answer(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics in the format that a client with this Accept header gets, and its content type.

        It waits for nothing: values are read from memory. There are no metrics of tables until the overview
        has read the tables.
        """
        overview, form = self._overview, Format.of(accept)
        tables = self._tables.text(overview.facts(overview.now())) if overview.is_built else ""
        return exposition(form, self.instruments.registry, tables), form.value
