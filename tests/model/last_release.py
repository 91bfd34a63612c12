"""The steps of a worker of release 0.1.0, which stand beside those of this release while it is replaced.

It opens the table by a commit of its own before it writes: it sets the epoch and creates a branch. It
publishes only while the epoch is its claim, and closes by setting the epoch again, which leaves main alone.
All that relies on a catalog that compares the whole metadata.
"""

from __future__ import annotations

from tests.model.refresh import changed, finish, give_up, is_published, pending
from tests.model.rules import Case
from tests.model.table import commit, has_rows_of, run_branches
from tests.model.world import (
    WHOLE,
    Branch,
    Change,
    Snapshot,
    Step,
    Storage,
    Worker,
    World,
    holds,
    with_run,
    with_worker,
    withdrawn,
    without_worker,
)


def decide(case: Case, w: World, worker: Worker) -> World:
    run = w.runs[worker.run - 1]
    if not holds(w, worker):
        return without_worker(w, worker)
    if withdrawn(w, worker.run):
        return finish(case, w, worker, "CANCELED")
    worker = worker._replace(seq=len(w.log) - 1)
    if worker.base is None and _is_at_main(worker, w.storage):
        worker = worker._replace(base=w.storage.main)
    seen = worker._replace(base=w.storage.main)
    w = with_run(w, worker.run, run._replace(seq=worker.seq, definition=worker.definition))
    parts = changed(case, w, seen)
    if not parts:
        return finish(case, w, worker, "SKIPPED")
    return with_worker(w, worker._replace(step="open" if worker.base is None else "write", parts=parts))


def _is_at_main(worker: Worker, storage: Storage) -> bool:
    """Return whether the next batch can be staged without opening the table again."""
    return storage.epoch == worker.claim and dict(storage.branches).get(_own(worker)) == storage.main


def write(case: Case, w: World, worker: Worker) -> World:
    """Commit the rows to the branch of the attempt, or hold a change of rows as a pending snapshot."""
    if worker.parts & case.scenario.poison:
        return finish(case, w, worker, "FAILED")
    staged = pending(case, w, worker)
    is_change = case.scenario.is_incremental and not worker.restarts and w.storage.main == worker.base
    if not is_change:
        w = commit(case, w, Change(None, sets=(_own(worker), staged)))
    return with_worker(w, worker._replace(step="publish", staged=staged, is_change=is_change))


def plan(case: Case, w: World, worker: Worker, storage: Storage) -> Change | World:
    """Return what the worker commits in its step, or the world after the step if it commits nothing."""
    if is_published(case, worker, storage):
        return finish(case, w, worker, "SUCCEEDED")
    if storage.epoch > worker.claim or (worker.step == "publish" and storage.epoch != worker.claim):
        return give_up(w, worker)
    match worker.step:
        case "open":
            return _change(worker, drop=_others(worker, storage), sets=(_own(worker), storage.main))
        case "publish":
            return _publish(case, w, worker, storage)
        case _:
            return _change(worker, drop=run_branches(storage))


def _publish(case: Case, w: World, worker: Worker, storage: Storage) -> Change | World:
    if withdrawn(w, worker.run):
        return finish(case, w, worker, "CANCELED")
    head = dict(storage.branches).get(_own(worker))
    if worker.is_change and (storage.main, head) != (worker.base, worker.base):
        return _restart(case, w, worker)
    if not worker.is_change and head != worker.staged:
        return finish(case, w, worker, "FAILED")
    needs_base = not worker.parts & WHOLE or worker.is_change
    if needs_base and not has_rows_of(storage.main, worker.base):
        return _restart(case, w, worker)
    if w.runs[worker.run - 1].kind == "continuous" and worker.staged is not None:
        change = _change(worker, drop=(), sets=(_own(worker), worker.staged))
    else:
        change = _change(worker, drop=(_own(worker),))
    return change._replace(main=worker.staged, last=worker.name, claim=worker.claim)


def answered(case: Case, w: World, worker: Worker) -> World:
    """Return the world after the worker has got the answer that its commit has taken effect."""
    match worker.step:
        case "open":
            step: Step = "write" if worker.parts else "decide"
            return with_worker(w, worker._replace(step=step, base=w.storage.main, must_close=True))
        case "publish":
            return finish(case, w, worker, "SUCCEEDED")
        case _:
            return with_worker(w, worker._replace(step="end"))


def _restart(case: Case, w: World, worker: Worker) -> World:
    """Open the table again, and write the same partitions at the same versions."""
    if worker.restarts == case.scenario.most_restarts:
        return finish(case, w, worker, "FAILED")
    again = worker._replace(step="open", base=None, staged=None, is_change=False)
    return with_worker(w, again._replace(restarts=worker.restarts + 1))


def _change(worker: Worker, drop: tuple[Branch, ...], sets: tuple[Branch, Snapshot] | None = None) -> Change:
    return Change(None, drop=drop, sets=sets, epoch=worker.claim)


def _own(worker: Worker) -> Branch:
    return (worker.run, worker.attempt)


def _others(worker: Worker, storage: Storage) -> tuple[Branch, ...]:
    return tuple(name for name in run_branches(storage) if name != _own(worker))
