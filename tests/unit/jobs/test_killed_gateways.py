"""A gateway that is killed at any boundary of a table of a query: the next one ends the job,
its hooks and what it left.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import Canceled, MtError, QueryFailed
from mt_core.jobs.installed import InstalledHooks
from mt_core.jobs.store import JobStore
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job, JobHook, JobStatus
from mt_core.model.reservation import Reservation
from mt_core.sessions.ports import SessionContext, StatementResult
from mt_core.sessions.statements.table_creations import TableCreationHook, TableCreations
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_statements import NO_ROWS, FakeStatementEngine
from tests.support.memory_registry import MemoryRegistry
from tests.support.recording_hook import RecordingHook
from tests.support.registry_facts import HOUR, NOON, a_job

CONTEXT = SessionContext(session_id="session", properties={})
SQL, TABLE = "CREATE TABLE t AS SELECT 1 AS a", ("lake", "default", "t")
ENDS = {
    JobStatus.FINISHED: NO_ROWS,
    JobStatus.FAILED: QueryFailed("broken"),
    JobStatus.CANCELED: Canceled("stopped"),
}


class Killed(BaseException):
    """The process is gone."""


class Death:
    """Ends the process at one *boundary*, once."""

    def __init__(self, boundary: str) -> None:
        self.boundary, self.came = boundary, False

    def __call__(self, boundary: str) -> None:
        if boundary == self.boundary and not self.came:
            self.came = True
            raise Killed


class MortalHook(RecordingHook):
    def __init__(self, death: Death) -> None:
        super().__init__()
        self._death = death

    def _record(self, event: str, job: Job, more: str) -> None:
        self._death(f"before {event}")
        super()._record(event, job, more)
        self._death(f"after {event}")


class MortalEngine(FakeStatementEngine):
    def __init__(self, death: Death, answer: StatementResult | Exception) -> None:
        super().__init__({SQL: answer})
        self._death = death

    def execute(
        self, context: SessionContext, sql: str, *, job_id: str, reservation: Reservation | None = None
    ) -> StatementResult:
        self._death("before the commit")
        result = super().execute(context, sql, job_id=job_id, reservation=reservation)
        self._death("after the commit")
        return result

    def settle(self, reservation: Reservation) -> bool:
        self._death("before the rest is removed")
        settled = super().settle(reservation)
        self._death("after the rest is removed")
        return settled


class World:
    """One registry and one engine, and the gateways of a test, one after the other."""

    def __init__(self, death: Death, answer: StatementResult | Exception) -> None:
        self.clock, self.death = FakeClock(NOON), death
        self.registry, self.engine, self.hook = (
            MemoryRegistry(self.clock),
            MortalEngine(death, answer),
            MortalHook(death),
        )
        self.begin_gateway("first")

    def begin_gateway(self, owner: str) -> None:
        """Begin a gateway; those before have ended."""
        with self.registry.transaction() as transaction:
            for lease in transaction.gateways.all():
                transaction.gateways.put(replace(lease, lease_until=NOON))
            transaction.gateways.put(GatewayLease(owner=owner, lease_until=NOON + 24 * HOUR))
        hooks = InstalledHooks({"recording": self.hook})
        self.store = JobStore(self.registry, owner=owner, clock=self.clock, hooks=hooks)
        self.creations = TableCreations(self.engine, self.store, engine_timeout_s=1)
        hooks.provide(TableCreationHook(self.creations))

    def run(self) -> None:
        """Create the table, as a statement does."""
        self.store.begin(a_job("job", hooks=(JobHook(name="recording", body={"note": "n"}),)))
        self.store.calls.call_due()
        status, error = JobStatus.FINISHED, None
        try:
            self.creations.run(CONTEXT, SQL, "job")
        except MtError as cause:
            status, error = (
                JobStatus.CANCELED if isinstance(cause, Canceled) else JobStatus.FAILED,
                str(cause),
            )
        self.death("before the end")
        self.store.end("job", status, rows_written=1, error=error)
        self.store.calls.call_due()

    def recover(self) -> Job:
        """Begin the next gateway, and let it do all that is left."""
        self.begin_gateway("second")
        self.clock.advance(timedelta(minutes=1))
        self.store.settle()
        self.store.calls.call_due()
        job = self.store.get("job")
        assert job is not None
        return job


BOUNDARIES = [
    *(
        (status, boundary)
        for status in ENDS
        for boundary in ("before created", "after created", "before the commit")
    ),
    (JobStatus.FINISHED, "after the commit"),
    *((status, "before the end") for status in ENDS),
    *((status, f"{when} {status.value.lower()}") for status in ENDS for when in ("before", "after")),
    *(
        (status, f"{when} the rest is removed")
        for status in (JobStatus.FAILED, JobStatus.CANCELED)
        for when in ("before", "after")
    ),
]


@pytest.mark.parametrize(("status", "boundary"), BOUNDARIES)
def test_the_next_gateway_ends_what_a_killed_one_began(status: JobStatus, boundary: str) -> None:
    world = World(Death(boundary), ENDS[status])
    with pytest.raises(Killed):
        world.run()
    committed = TABLE in world.engine.published

    job = world.recover()

    assert (job.status in (status, JobStatus.FAILED), job.hooks_due) == (True, False)
    assert list(dict.fromkeys(event for event, *_ in world.hook.calls)) == [
        "created",
        job.status.value.lower(),
    ]
    assert (
        (TABLE in world.engine.published)
        == committed
        == (boundary in _COMMITTED and status is JobStatus.FINISHED)
    )
    assert bool(world.engine.settled) == (job.status is not JobStatus.FINISHED and len(job.hooks) > 1)


# The boundaries that a job comes to with its table.
_COMMITTED = {"after the commit", "before the end", "before finished", "after finished"}
