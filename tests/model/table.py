"""The Iceberg table of the model: how a commit takes effect, and the commits of others than refreshes.

It follows `mt_core/spark/iceberg/metadata.py` and `mt_core/tables/upkeep/compaction.py`. A catalog compares
main only, as every Iceberg catalog does; beside the last release, it compares the whole metadata. Since main
never returns to a snapshot, a commit that was computed for another main can never take effect. So it is
forgotten as soon as main moves.
"""

from __future__ import annotations

from tests.model.properties import Property, must
from tests.model.rules import Case
from tests.model.world import (
    DONE,
    OPEN,
    SAME_ROWS,
    Branch,
    Cell,
    Change,
    Compaction,
    Snapshot,
    Storage,
    Worker,
    World,
    ancestors,
    swapped,
    with_run,
)


def commit(case: Case, w: World, change: Change) -> World:
    """Let a commit take effect."""
    storage, main = w.storage, change.main
    if main is not None:
        w = _checked(case, w, change, main)
    branches = tuple(each for each in storage.branches if each[0] not in change.drop)
    if change.sets is not None:
        name = change.sets[0]
        others = (each for each in branches if each[0] != name)
        branches = tuple(sorted((*others, change.sets), key=_name))
    after = Storage(
        storage.main if main is None else main,
        branches,
        storage.epoch if change.epoch is None else change.epoch,
        storage.last if change.last is None else change.last,
    )
    if after == storage and not case.is_strict:
        return w
    w = w._replace(storage=after)
    is_outdated = after.main is not storage.main or case.is_strict
    if not is_outdated or not case.rules.main_is_compared:
        return w
    workers = w.workers
    if any(worker.read is not None for worker in workers):
        workers = tuple(worker._replace(read=None) for worker in workers)
    return w._replace(flights=(), workers=workers)


def _name(branch: tuple[Branch, Snapshot]) -> Branch:
    return branch[0]


def _checked(case: Case, w: World, change: Change, main: Snapshot) -> World:
    """Check that a commit may move main to the snapshot *main*; note that it has."""
    if main.origin in SAME_ROWS:
        lost = [part for part in range(case.width) if main.cells[part] != w.storage.main.cells[part]]
        must(not lost, Property.FORWARD, f"a snapshot that is {main.origin} loses the rows of", lost)
    if not change.claim:
        return w
    must(
        change.claim >= w.top,
        Property.REPLACED_IS_SILENT,
        f"claim {change.claim} moves main after claim {w.top}",
    )
    if main.origin == "refresh":
        w = _published(case, w, main)
    return w._replace(top=change.claim)


def _published(case: Case, w: World, snapshot: Snapshot) -> World:
    number, batch = snapshot.name
    run = w.runs[number - 1]
    if run.kind == "continuous":
        # The process of a continuous run that was taken for lost may publish once more.
        must(
            run.status not in (*DONE, "FAILED"), Property.ONCE, f"run {number} is {run.status}, and published"
        )
    else:
        must(run.status in OPEN, Property.ONCE, f"run {number} is {run.status}, and published now")
    must(run.published < batch, Property.ONCE, f"batch {batch} is published twice: run", number)
    own = {cell[:2] for cell in snapshot.cells if cell is not None and cell.run == number}
    must(len(own) <= 1, Property.ONE_VERSION, f"run {number} mixes", own)
    for part in range(case.width):
        old, new = w.storage.main.cells[part], snapshot.cells[part]
        if not snapshot.parts >> part & 1:
            must(old == new, Property.FORWARD, f"run {number} does not refresh {part}; it replaces", old)
        elif new is not None:
            older = old is not None and old.run > 0 and old.seq > new.seq
            must(not older, Property.FORWARD, f"run {number} returns {part} to older rows:", new)
            seen = max(
                (each.unchanged for each in w.runs if each.parts >> part & 1),
                default=-1,
            )
            must(new.seq >= seen, Property.SKIP_IS_RIGHT, f"{part} was unchanged at {seen}; now it has", new)
    return with_run(w, number, run._replace(published=batch))


def has_rows_of(main: Snapshot, base: Snapshot | None) -> bool:
    """Return whether main has the rows of *base*: whether only snapshots without other rows have followed."""
    for snapshot in ancestors(main):
        if snapshot == base or snapshot.origin not in SAME_ROWS:
            return snapshot == base
    return False


def closed(main: Snapshot) -> Snapshot:
    """Return the empty snapshot of a close."""
    return Snapshot("closed", main.cells, main)


def run_branches(storage: Storage) -> tuple[Branch, ...]:
    return tuple(name for name, _ in storage.branches)


def stage(case: Case, w: World, branch: Branch, snapshot: Snapshot) -> World:
    """Commit rows to a branch, which is created if it does not exist."""
    return commit(case, w, Change(None, sets=(branch, snapshot)))


def foreign(case: Case, w: World, part: int) -> World:
    """Another writer replaces the rows of a partition."""
    cells = swapped(w.storage.main.cells, part, Cell(0, 0, 0))
    return commit(case, w, Change(Snapshot("foreign", cells, w.storage.main, parts=1 << part)))


def maintain(case: Case, w: World) -> World:
    """Expiry or a change of the schema, if it claimed the table and closed it, as the next run would."""
    claim = w.claim + 1
    change = Change(closed(w.storage.main), drop=run_branches(w.storage), epoch=claim, claim=claim)
    return commit(case, w._replace(claim=claim), change)


# ----------------------------------------------------------------------------------------------- compaction


def begin_compaction(case: Case, w: World, number: int) -> World:
    """Create the branch of a compaction at main. Other branches are those of runs that have ended."""
    compaction = Compaction("write", number, w.storage.main)
    held = {(worker.run, worker.attempt) for worker in w.workers if _is_continuous(w, worker)}
    drop = tuple(name for name in run_branches(w.storage) if name not in held)
    change = Change(None, drop=drop, sets=(compaction.branch, w.storage.main))
    return commit(case, w, change)._replace(compaction=compaction)


def _is_continuous(w: World, worker: Worker) -> bool:
    return w.runs[worker.run - 1].kind == "continuous"


def compact(case: Case, w: World) -> World:
    """Take the next step of the compaction."""
    compaction = w.compaction
    assert compaction is not None
    if compaction.step == "write":
        staged = Snapshot("compacted", compaction.base.cells, compaction.base)
        w = stage(case, w, compaction.branch, staged)
        return w._replace(compaction=compaction._replace(step="publish", staged=staged))
    change = compacted(case, w, compaction)
    if change is not None:
        return commit(case, w, change)._replace(compaction=None)
    if compaction.branch in run_branches(w.storage) and case.is_continuous:
        # The batches of a continuous run spare the branch; the files replace the old ones in main as it is.
        return w._replace(compaction=Compaction("write", compaction.number, w.storage.main))
    return commit(case, w, Change(None, drop=(compaction.branch,)))._replace(compaction=None)


def compacted(case: Case, w: World, compaction: Compaction) -> Change | None:
    """Return the commit that publishes a compaction, or None if it must not be published."""
    has_branch = compaction.branch in run_branches(w.storage)
    if not has_branch or compaction.staged is None:
        return None
    if w.storage.main != compaction.base and case.rules.compaction_needs_its_base:
        return None
    return Change(compaction.staged, drop=(compaction.branch,))
