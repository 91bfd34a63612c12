"""A stream engine in memory. Sources are lists of rows, and each `run_batches` publishes their new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mt_core.base.identifiers import namespace_of
from mt_core.errors import EngineError, EngineUnavailable, MtError
from mt_core.model.stream import StreamDefinition, StreamProgress
from mt_core.model.stream_plan import StreamPlan
from mt_core.plans.compiled import Topology
from mt_core.plans.operators import Operator, OperatorState
from mt_core.plans.states import check_policies, planned_policy
from tests.support.plans import scan

SOURCE, SINK = ("lake", "default", "flights"), ("lake", "default", "arrivals")


@dataclass(slots=True)
class _Stream:
    definition: StreamDefinition
    attempt: int
    progress: StreamProgress


@dataclass(slots=True)
class FakeStreams:
    """A `StreamEngine`.

    `lose` drops what a JVM has in memory. Checkpoints, savepoints and sinks are files, and remain.
    """

    source: list[str] = field(default_factory=list)
    sink: list[str] = field(default_factory=list)
    # The rows of the tables that streams have created, by job, and the existing tables that can be replaced.
    created: dict[str, list[str]] = field(default_factory=dict)
    others: set[tuple[str, ...]] = field(default_factory=set)
    # The numbers of rows and batches that a checkpoint or savepoint covers.
    checkpoints: dict[str, tuple[int, int]] = field(default_factory=dict)
    savepoints: dict[str, tuple[int, int]] = field(default_factory=dict)
    attempts: dict[str, list[int]] = field(default_factory=dict)
    # The operators of statements. A statement that is missing has only a scan.
    operators: dict[str, Operator] = field(default_factory=dict)
    refusals: dict[str, MtError] = field(default_factory=dict)
    # The files that streams do not find, in addition to checkpoints, described in words, by job.
    absent: dict[str, str] = field(default_factory=dict)
    available: bool = True
    on_start: Callable[[], object] = lambda: None
    # Called after the copy of a savepoint and before `savepoint` returns.
    after_copy: Callable[[], object] = lambda: None
    # Called after a table was removed and before `discard` returns.
    after_discard: Callable[[], object] = lambda: None
    # Called when a job is prepared, before anything else.
    before_prepare: Callable[[], object] = lambda: None
    _streams: dict[str, _Stream] = field(default_factory=dict)
    _stopped: dict[str, StreamProgress] = field(default_factory=dict)

    def prepare(self, definition: StreamDefinition, job_id: str) -> StreamDefinition:
        self.before_prepare()
        check_policies([each.state_ttls for each in definition.members], self.topology(definition))
        target = definition.creates.table if definition.creates is not None else SINK
        if definition.keeps is not None:
            target = namespace_of(definition.members[0].text.split()[2])
        self._begin(definition)
        return replace(
            definition, plan=StreamPlan(), reads=(SOURCE,), writes=(target,), replaces=target in self.others
        )

    def check(self, definition: StreamDefinition) -> None:
        self._check_available()
        self._refuse(definition)

    def topology(self, definition: StreamDefinition) -> Topology:
        self._check_available()
        self._refuse(definition)
        operators = [
            _with_ttls(self.operators.get(member.text.strip(), scan()), member.state_ttls)
            for member in definition.members
        ]
        return Topology(spark_version="4.1.0", operators=tuple(operators))

    def start(self, job_id: str, definition: StreamDefinition, attempt: int) -> None:
        self._check_available()
        stream = self._streams.get(job_id)
        if stream is not None and stream.attempt == attempt and stream.progress.running:
            return
        self.on_start()
        self._stopped.pop(job_id, None)
        missing = self.missing(job_id, definition)
        if missing is not None:
            self._streams[job_id] = _Stream(definition, attempt, StreamProgress(error=missing, missing=True))
            return
        self._begin(definition)
        _, batches = self.checkpoints[definition.checkpoint]
        last = batches - 1 if batches else None
        progress = StreamProgress(batch=last, rows_read=0, rows_written=0, running=True)
        self._streams[job_id] = _Stream(definition, attempt, progress)
        self.attempts.setdefault(job_id, []).append(attempt)

    def progress(self, job_id: str) -> StreamProgress:
        stream = self._streams.get(job_id)
        return stream.progress if stream is not None else self._stopped.get(job_id, StreamProgress())

    def stop(self, job_id: str, definition: StreamDefinition) -> None:
        self._check_available()
        self._let_go(job_id)

    def savepoint(
        self, job_id: str, definition: StreamDefinition, folder: str, *, drain: bool = False
    ) -> str:
        self._check_available()
        missing = self.missing(job_id, definition)
        if missing is not None:
            raise EngineError(missing)
        if drain:
            self._run_batch(job_id)
        self._let_go(job_id)
        self.savepoints.setdefault(folder, self.checkpoints.get(definition.checkpoint, (0, 0)))
        self.after_copy()
        return folder

    def created_rows(self, job_id: str, definition: StreamDefinition) -> int | None:
        self._check_available()
        return len(self.created[job_id]) if job_id in self.created else None

    def missing(self, job_id: str, definition: StreamDefinition) -> str | None:
        self._check_available()
        if definition.plan is not None and definition.checkpoint not in self.checkpoints:
            return f"There is no checkpoint {definition.checkpoint}."
        return self.absent.get(job_id)

    def discard(self, job_id: str, definition: StreamDefinition, *, drop: bool) -> None:
        self._check_available()
        if job_id in self.created and not drop:
            return
        self.created.pop(job_id, None)
        self.checkpoints.pop(definition.checkpoint, None)
        self.after_discard()

    def forget(self, job_id: str, definition: StreamDefinition) -> None:
        self._check_available()
        self.checkpoints.pop(definition.checkpoint, None)

    # ---------------------------------------------------------------------------------------------- for tests

    def run_batches(self) -> None:
        """Publish the new rows of the sources through each running stream."""
        for job_id in list(self._streams):
            self._run_batch(job_id)

    def fail(self, job_id: str, error: str, *, final: bool = False) -> None:
        """Fail a stream with *error*."""
        stream = self._streams[job_id]
        stream.progress = replace(stream.progress, running=False, error=error, final=final)

    def finish(self, job_id: str) -> None:
        """Finish a stream whose sources have all been read."""
        stream = self._streams[job_id]
        stream.progress = replace(stream.progress, running=False, finished=True)

    def lose(self, *, available: bool = False, bystanders: bool = False) -> None:
        """Lose the JVM. If *available* is set, a new JVM is there immediately.

        If *bystanders* is set, streams without a running batch are bystanders.
        """
        for job_id, stream in self._streams.items():
            self._stopped[job_id] = StreamProgress(batch=stream.progress.batch, bystander=bystanders)
        self._streams.clear()
        self.available = available

    def running(self) -> set[str]:
        """Return the ids of jobs with a running stream."""
        return {job_id for job_id, stream in self._streams.items() if stream.progress.running}

    def _begin(self, definition: StreamDefinition) -> None:
        """Create the checkpoint of a stream unless it exists."""
        if definition.checkpoint not in self.checkpoints:
            begin = (
                self.savepoints[definition.restored_from] if definition.restored_from is not None else (0, 0)
            )
            self.checkpoints[definition.checkpoint] = begin

    def _let_go(self, job_id: str) -> None:
        stream = self._streams.pop(job_id, None)
        if stream is not None:
            self._stopped[job_id] = replace(stream.progress, running=False)

    def _run_batch(self, job_id: str) -> None:
        stream = self._streams.get(job_id)
        if stream is None or not stream.progress.running:
            return
        checkpoint = stream.definition.checkpoint
        rows, batches = self.checkpoints[checkpoint]
        if rows == len(self.source):
            return
        new = self.source[rows:]
        if stream.definition.creates is None:
            self.sink.extend(new)
        else:
            self.created.setdefault(job_id, []).extend(new)
        count = (stream.progress.rows_written or 0) + len(new)
        rows, batches = len(self.source), batches + 1
        self.checkpoints[checkpoint] = (rows, batches)
        offsets = f'{{"rows": {rows}}}'
        stream.progress = replace(
            stream.progress, batch=batches - 1, rows_read=count, rows_written=count, offsets=offsets
        )

    def _refuse(self, definition: StreamDefinition) -> None:
        for member in definition.members:
            if member.text in self.refusals:
                raise self.refusals[member.text]

    def _check_available(self) -> None:
        if not self.available:
            raise EngineUnavailable("Spark is starting; try again.")


def _with_ttls(operator: Operator, ttls: Sequence[Sequence[str]] | None) -> Operator:
    """Return *operator* and its inputs with the TTLs of a plan."""
    return operator if ttls is None else _planned(operator, iter(ttls))


def _planned(operator: Operator, planned: Iterator[Sequence[str]]) -> Operator:
    inputs = tuple(_planned(each, planned) for each in operator.inputs)
    ttls = next(planned) if operator.states else ()
    states = tuple(
        OperatorState.of(state.index, state.name, planned_policy(ttl))
        for state, ttl in zip(operator.states, ttls, strict=True)
    )
    return replace(operator, inputs=inputs, states=states)
