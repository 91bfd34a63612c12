"""Connects the stream engine and the job store with the owner of jobs and the keeper of tables."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.clock import Clock
from mt_core.errors import EngineUnavailable
from mt_core.jobs.store import JobStore
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.properties.stream_properties import StreamDefaults
from mt_core.sessions.streaming.streaming_statements import Streams
from mt_core.streaming.engine import StreamEngine
from mt_core.streaming.owner import StreamOwner
from mt_core.streaming.table_keeper import StreamKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPorts:
    """The parts that streams need. Up to `most_running` jobs run at a time.

    Jobs start when the engine of `statements` is ready. `defaults` apply to properties that a session does
    not set.
    """

    engine: StreamEngine
    statements: StatementEngine
    jobs: JobStore
    clock: Clock
    defaults: StreamDefaults
    most_running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamServices:
    """The services that run streaming jobs, and that maintain tables with them."""

    streams: Streams
    keeper: StreamKeeper


def wire_streams(ports: StreamPorts) -> StreamServices:
    """Return the services of streams. The caller starts them."""

    def ready() -> bool:
        try:
            return ports.statements.wait_ready(0)
        except EngineUnavailable:
            return False

    owner = StreamOwner(
        ports.jobs, ports.engine, clock=ports.clock, ready=ready, most_running=ports.most_running
    )
    checkpoints = ports.defaults.checkpoints
    return StreamServices(
        streams=Streams(engine=ports.engine, owner=owner, defaults=ports.defaults),
        keeper=StreamKeeper(
            store=ports.jobs, engine=ports.engine, clock=ports.clock, checkpoints=checkpoints
        ),
    )
