"""The Iceberg table of the model: how a commit takes effect, and the commits of others than refreshes.

It follows `mt_core/spark/iceberg/metadata.py` and `mt_core/tables/upkeep/compaction.py`. A catalog compares
main only, as every Iceberg catalog does, and takes no snapshot whose number is not above all others; beside
the last release, it compares the whole metadata. Since main never returns to a snapshot and numbers only
grow, a commit that was computed for another main or number can never take effect. So it is forgotten as soon
as either changes.
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
    World,
    ancestors,
    same_rows,
    swapped,
    with_run,
)

MIXED = 99
"""The file of a cell in which the rows of two files are, of which one should have been removed."""


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
        _last_number(storage, change),
    )
    if after == storage and not case.is_strict:
        return w
    return _stored(case, w, after)


def _last_number(storage: Storage, change: Change) -> int:
    added = (change.main, None if change.sets is None else change.sets[1])
    return max(storage.number, *(0 if each is None else each.number for each in added))


def _stored(case: Case, w: World, after: Storage) -> World:
    """Return the world with new metadata, without the commits that were computed for other metadata."""
    storage, w = w.storage, w._replace(storage=after)
    is_outdated = after.main is not storage.main or after.number != storage.number or case.is_strict
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
        pairs = enumerate(zip(main.cells, w.storage.main.cells, strict=True))
        lost = [part for part, cells in pairs if not same_rows(*cells)]
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
    mixed = [part for part, cell in enumerate(snapshot.cells) if cell is not None and cell.file == MIXED]
    must(not mixed, Property.ONE_VERSION, f"run {number} leaves a file with the same rows in", mixed)
    for part in range(case.width):
        old, new = w.storage.main.cells[part], snapshot.cells[part]
        if not snapshot.parts >> part & 1:
            must(
                same_rows(old, new),
                Property.FORWARD,
                f"run {number} does not refresh {part}; it replaces",
                old,
            )
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


def closed(storage: Storage) -> Snapshot:
    """Return the empty snapshot of a close."""
    return Snapshot("closed", storage.main.cells, storage.main, number=storage.number + 1)


def repeated(case: Case, pending: Snapshot, storage: Storage) -> Snapshot:
    """Return a pending snapshot with the next number: it has the same files and the same parent."""
    pending = pending._replace(number=storage.number + 1)
    if case.rules.pending_keeps_its_base or pending.parent is None:
        return pending
    cells = list(storage.main.cells)
    for part in range(case.width):
        new = pending.cells[part]
        if pending.parts >> part & 1 and new is not None:
            is_replaced = cells[part] in (None, pending.parent.cells[part])
            cells[part] = new if is_replaced else new._replace(file=MIXED)
    return pending._replace(cells=tuple(cells), parent=storage.main)


def run_branches(storage: Storage) -> tuple[Branch, ...]:
    return tuple(name for name, _ in storage.branches)


def dropped(case: Case, storage: Storage) -> tuple[Branch, ...]:
    """Return the branches that a publish or close drops: all that the last release has left."""
    return run_branches(storage) if case.rules.branches_are_dropped else ()


def foreign(case: Case, w: World, part: int) -> World:
    """Another writer replaces the rows of a partition."""
    number, main = w.storage.number + 1, w.storage.main
    cells = swapped(main.cells, part, Cell(0, 0, 0, number))
    return commit(case, w, Change(Snapshot("foreign", cells, main, parts=1 << part, number=number)))


def aside(case: Case, w: World) -> World:
    """Another writer commits to a branch of its own, which takes a number."""
    return _stored(case, w, w.storage._replace(number=w.storage.number + 1))


def maintain(case: Case, w: World) -> World:
    """Expiry or a change of the schema, if it claimed the table and closed it, as the next run would."""
    claim = w.claim + 1
    change = Change(closed(w.storage), drop=dropped(case, w.storage), epoch=claim, claim=claim)
    return commit(case, w._replace(claim=claim), change)


# ----------------------------------------------------------------------------------------------- compaction


def begin_compaction(w: World, part: int, number: int) -> World | None:
    """Rewrite the file of a partition, in a pending snapshot that follows main."""
    cell = w.storage.main.cells[part]
    if cell is None:
        return None
    return w._replace(compaction=Compaction(part, _compacted(w.storage, part, cell._replace(file=-number))))


def _compacted(storage: Storage, part: int, cell: Cell) -> Snapshot:
    main, number = storage.main, storage.number + 1
    return Snapshot("compacted", swapped(main.cells, part, cell), main, number=number, claim=cell.file)


def compact(case: Case, w: World) -> World:
    """Publish the compaction, or repeat it on what has become main, or give it up."""
    compaction = w.compaction
    assert compaction is not None
    staged, part, main = compaction.staged, compaction.part, w.storage.main
    if (change := compacted(w, compaction)) is not None:
        return commit(case, w, change)._replace(compaction=None)
    looked_at = ancestors(main) if case.rules.compaction_looks_for_itself else (main,)
    if staged in looked_at:
        return w._replace(compaction=None)
    assert staged.parent is not None
    if main.cells[part] != staged.parent.cells[part] and case.rules.compaction_needs_its_files:
        if not compaction.is_sent or not case.rules.sent_files_are_kept:
            deletes_files(w, staged)
        return w._replace(compaction=None)
    cell = staged.cells[part]
    assert cell is not None
    return w._replace(compaction=compaction._replace(staged=_compacted(w.storage, part, cell)))


def compacted(w: World, compaction: Compaction) -> Change | None:
    """Return the commit that publishes a compaction, or None if it does not follow main any more."""
    staged, storage = compaction.staged, w.storage
    is_next = staged.number == storage.number + 1 and staged.parent == storage.main
    return Change(staged) if is_next else None


def deletes_files(w: World, pending: Snapshot) -> None:
    """Check that the files of a pending snapshot, which its writer deletes, cannot be those of main."""
    ours = (pending.claim, pending.name)
    sent = (flight.main for flight in w.flights if flight.main is not None)
    for each in (*ancestors(w.storage.main), *sent):
        must((each.claim, each.name) != ours, Property.FORWARD, "files of main are deleted:", *ours)
