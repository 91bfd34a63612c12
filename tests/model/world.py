"""The state of the model: one table with its ledger, its sources, and the processes that work on it.

All of it is one immutable tuple of tuples, which is hashed and compared as a whole. Two snapshots are the
same if they and all their ancestors are equal, so no snapshot needs an id, and "main is where it was read" is
a comparison. A snapshot that no commit has added yet is pending: only the process that wrote it has it.

Fields named *ghost* are the observer's: the properties are checked with them, and no rule of the protocol
reads them. Sources are a log of versions. A *position* in the log is a moment, so the same version may stand
at two positions: a source that was rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeVar

Item = TypeVar("Item")
Parts = int
"""A set of partitions as bits. `WHOLE` is the bit of the whole table, set in addition to all partitions."""
Points = int
"""A set of schedule times as bits; the first schedule time is bit 0."""
WHOLE: Parts = 8

Status = Literal["QUEUED", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED", "CANCELED", "COALESCED"]
Kind = Literal["periodic", "manual", "rebuild", "continuous"]
Origin = Literal["created", "refresh", "foreign", "closed", "compacted"]
Step = Literal["open", "decide", "look", "write", "publish", "close", "close unchanged", "idle", "end"]
Name = tuple[int, int]
"""Run and batch of a publish. A run that publishes once has only a first batch."""
Branch = tuple[int, int]
"""Run and attempt. Only workers of the last release make branches."""
OPEN = ("QUEUED", "RUNNING")
DONE = ("SUCCEEDED", "SKIPPED")
# The operation `replace`: the rows are those of the parent.
SAME_ROWS = ("closed", "compacted")


class Cell(NamedTuple):
    """The rows of one partition: the source position and the definition that they show, and who wrote them.

    Another writer's rows have run 0. `file` differs between files with the same rows: of a run, of a
    compaction (below 0), and of commits of other writers (above 0).
    """

    seq: int
    definition: int
    run: int
    file: int = 0

    @property
    def rows(self) -> tuple[int, int, int]:
        return self[:3]

    def __str__(self) -> str:
        if not self.run:
            return "another writer's rows"
        return f"rows of run {self.run} at position {self.seq}, definition {self.definition}"


class Snapshot(NamedTuple):
    """A snapshot of the table: its number, its summary, and the rows of each partition.

    `claim` stands for its id: what another claim has written has other files.
    """

    origin: Origin
    cells: tuple[Cell | None, ...]
    parent: Snapshot | None = None
    name: Name = (0, 0)
    parts: Parts = 0
    seq: int = 0
    definition: int = 0
    number: int = 0
    claim: int = 0


class Storage(NamedTuple):
    """The metadata of the table. `epoch` and `last` are properties; `number` is that of the last snapshot."""

    main: Snapshot
    branches: tuple[tuple[Branch, Snapshot], ...] = ()
    epoch: int = 0
    last: Name = (0, 0)
    number: int = 0


class Change(NamedTuple):
    """A commit. It may take effect after the process that sent it has given up on an answer.

    `main` is its new snapshot of main, `epoch` and `last` are its properties; None leaves them as they are.
    """

    main: Snapshot | None
    drop: tuple[Branch, ...] = ()
    sets: tuple[Branch, Snapshot] | None = None
    epoch: int | None = None
    last: Name | None = None
    # Ghost: the claim of the worker; 0 for everybody else.
    claim: int = 0


class Run(NamedTuple):
    """A row of the ledger; the id of a run is its place, from 1."""

    kind: Kind
    status: Status
    parts: Parts
    key: tuple[int, int] | None = None
    points: Points = 0
    attempt: int = 1
    claim: int = 0
    cancel: bool = False
    cover: int = 0
    solo: bool = False
    # The schedule times to try after this one, each alone.
    rest: Points = 0
    # The source position and the definition that the ledger notes.
    seq: int = 0
    definition: int = 0
    # Ghost: what its requester asked for, and the oldest position and definition that answer it.
    wanted: Parts = 0
    since: int = 0
    since_definition: int = 0
    # Ghost: the last batch that was published, and the last position at which it found nothing changed.
    published: int = 0
    unchanged: int = -1


class Worker(NamedTuple):
    """A process that has claimed a run, and what it knows."""

    step: Step
    run: int
    attempt: int
    claim: int
    definition: int
    must_close: bool = False
    seq: int = 0
    parts: Parts = 0
    base: Snapshot | None = None
    staged: Snapshot | None = None
    # Whether its rows are a change of those of `base`, and not all rows of the table.
    is_change: bool = False
    # Whether a publish was sent without an answer.
    is_sent: bool = False
    restarts: int = 0
    batch: int = 1
    end: Status | None = None
    # The metadata that it has read; None if it must read first, or its commit would fail.
    read: Storage | None = None
    is_last_release: bool = False

    @property
    def name(self) -> Name:
        return (self.run, self.batch)

    def __str__(self) -> str:
        return f"run {self.run}.{self.attempt}"


class Compaction(NamedTuple):
    """A process that has rewritten the file of a partition, in a pending snapshot."""

    part: int
    staged: Snapshot
    # Whether a publish was sent without an answer.
    is_sent: bool = False


class World(NamedTuple):
    """Everything."""

    storage: Storage
    runs: tuple[Run, ...] = ()
    workers: tuple[Worker, ...] = ()
    compaction: Compaction | None = None
    # Commits without an answer that may still take effect.
    flights: tuple[Change, ...] = ()
    # The row of the table in the registry.
    claim: int = 0
    is_suspended: bool = False
    definition: int = 0
    rebuild_due: bool = False
    covered: Points = 0
    failing: Points = 0
    # Schedule times that have passed.
    now: int = 0
    # Ghost: the version of the source at each position, and the position when each schedule time passed.
    log: tuple[int, ...] = (0,)
    at: tuple[int, ...] = ()
    # Ghost: the highest claim that has moved main.
    top: int = 0
    # How often each event may still happen.
    left: tuple[int, ...] = ()
    # On the way to rest: how many of the last requests were made.
    last_requests: int = 0


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    number = 0
    while mask:
        if mask & 1:
            yield number
        mask >>= 1
        number += 1


def swapped(items: tuple[Item, ...], place: int, item: Item) -> tuple[Item, ...]:
    return (*items[:place], item, *items[place + 1 :])


def with_run(w: World, number: int, run: Run) -> World:
    return w._replace(runs=swapped(w.runs, number - 1, run))


def with_worker(w: World, worker: Worker) -> World:
    """Return the world in which *worker* has taken a step. Workers are identified by their claim."""
    return w._replace(workers=tuple(worker if each.claim == worker.claim else each for each in w.workers))


def without_worker(w: World, worker: Worker) -> World:
    return w._replace(workers=tuple(each for each in w.workers if each.claim != worker.claim))


def ancestors(snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """Yield *snapshot* and its ancestors, newest first."""
    while snapshot is not None:
        yield snapshot
        snapshot = snapshot.parent


def same_rows(cell: Cell | None, other: Cell | None) -> bool:
    """Return whether two partitions have the same rows, though in other files."""
    if cell is None or other is None:
        return cell is other
    return cell.rows == other.rows


def holds(w: World, worker: Worker) -> bool:
    """Return whether *worker* still holds its run: the condition of each of its writes to the ledger."""
    run = w.runs[worker.run - 1]
    return (run.status, run.attempt, run.claim) == ("RUNNING", worker.attempt, worker.claim)


def withdrawn(w: World, number: int) -> bool:
    """Return whether every requester of the run has cancelled it."""
    return w.runs[number - 1].cancel and all(run.cancel for run in w.runs if run.cover == number)


def shown(w: World, run: Run) -> Status:
    """Return the status of a run as its requester sees it."""
    if run.cover:
        return "CANCELED" if run.cancel else w.runs[run.cover - 1].status
    return run.status
