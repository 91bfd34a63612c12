"""The steps of a worker that has claimed a run: decide, write, publish, close and end.

They follow `mt_core/tables/refresh/publication.py`. Publish and close are planned first, as a commit or as
what happens instead of it, so that the commit may also lose its answer.
"""

from __future__ import annotations

from itertools import takewhile

from tests.model.ledger import check_still_unchanged, check_unchanged
from tests.model.properties import Property, must
from tests.model.rules import Case
from tests.model.table import closed, deletes_files, dropped, has_rows_of, repeated
from tests.model.world import (
    DONE,
    SAME_ROWS,
    WHOLE,
    Cell,
    Change,
    Parts,
    Snapshot,
    Status,
    Step,
    Storage,
    Worker,
    World,
    ancestors,
    bits,
    holds,
    with_run,
    with_worker,
    withdrawn,
    without_worker,
)


def finish(case: Case, w: World, worker: Worker, status: Status) -> World:
    """End the run, or the batch of a continuous run, with *status*."""
    is_batch = w.runs[worker.run - 1].kind == "continuous" and worker.step not in ("idle", "close")
    if is_batch and status in DONE:
        return _end_batch(w, worker, status)
    step: Step = "close" if worker.must_close and status != "SUCCEEDED" else "end"
    return with_worker(w, _bare(worker)._replace(step=step, end=status, parts=0))


def closed_now(case: Case, w: World, worker: Worker) -> World:
    """Return the world after the worker has closed the table."""
    if worker.step == "close unchanged":
        return finish(case, w, worker._replace(must_close=False), "SKIPPED")
    return with_worker(w, worker._replace(step="end"))


def _bare(worker: Worker) -> Worker:
    """Return *worker* without what it has written."""
    return worker._replace(base=None, staged=None, is_change=False, restarts=0)


def _end_batch(w: World, worker: Worker, status: Status) -> World:
    if not holds(w, worker):
        return without_worker(w, worker)
    batch = worker.batch + (status == "SUCCEEDED")
    if status == "SKIPPED":
        run = w.runs[worker.run - 1]
        check_still_unchanged(w, worker, run.parts)
        w = with_run(w, worker.run, run._replace(unchanged=worker.seq))
    return with_worker(w, _bare(worker)._replace(step="idle", batch=batch, parts=0))


def give_up(w: World, worker: Worker) -> World:
    """The worker has been replaced: it writes nothing anywhere."""
    must(not holds(w, worker), Property.HOLDER_GOES_ON, f"{worker} holds its run and is pushed aside")
    return without_worker(w, worker)


def restart(case: Case, w: World, worker: Worker) -> World:
    """Decide again, because main or the sources have changed."""
    if worker.restarts == case.scenario.most_restarts:
        return finish(case, w, worker, "FAILED")
    again = _bare(worker)._replace(restarts=worker.restarts + 1, step="decide", parts=0, seq=0)
    return with_worker(w, again)


def is_published(case: Case, worker: Worker, storage: Storage) -> bool:
    if storage.last == worker.name:
        return True
    if worker.attempt == 1 or not case.rules.attempts_look_at_history:
        return False
    return any(each.origin == "refresh" and each.name == worker.name for each in ancestors(storage.main))


# --------------------------------------------------------------------------------------------------- decide


def decide(case: Case, w: World, worker: Worker) -> World:
    """Ask the ledger whether to go on, and pin the sources."""
    if not holds(w, worker):
        return without_worker(w, worker)
    if withdrawn(w, worker.run):
        return finish(case, w, worker, "CANCELED")
    worker = worker._replace(seq=len(w.log) - 1)
    if case.scenario.is_split:
        return with_worker(w, worker._replace(step="look"))
    return look(case, w, worker)


def look(case: Case, w: World, worker: Worker) -> World:
    """Read the history of main, and leave out what has not changed."""
    storage = w.storage
    if case.rules.decide_looks_for_itself and is_published(case, worker, storage):
        return finish(case, w, worker, "SUCCEEDED")
    if case.rules.decide_looks_for_later and storage.epoch > worker.claim:
        return give_up(w, worker)
    worker = worker._replace(base=storage.main)
    parts = changed(case, w, worker)
    if not holds(w, worker):
        # The decision cannot be noted.
        return without_worker(w, worker)
    run = w.runs[worker.run - 1]._replace(seq=worker.seq, definition=worker.definition)
    return decided(case, with_run(w, worker.run, run), worker, parts)


def changed(case: Case, w: World, worker: Worker) -> Parts:
    """Return the partitions that have to be refreshed."""
    run = w.runs[worker.run - 1]
    if run.kind == "manual":
        return run.parts
    same: Parts = 0
    for part in bits(run.parts & ~WHOLE):
        if _is_unchanged(case, w, worker, part):
            same |= 1 << part
    parts = run.parts & ~same
    if run.parts & WHOLE:
        parts = 0 if parts == WHOLE else run.parts
    check_unchanged(w, worker, run.parts & ~parts)
    return parts


def decided(case: Case, w: World, worker: Worker, parts: Parts) -> World:
    if parts:
        return with_worker(w, worker._replace(step="write", parts=parts))
    if worker.must_close:
        return with_worker(w, worker._replace(step="close unchanged"))
    return finish(case, w, worker, "SKIPPED")


def _is_unchanged(case: Case, w: World, worker: Worker, part: int) -> bool:
    rules = case.rules
    if not rules.history_decides:
        return _is_unchanged_in_ledger(w, worker, part)
    for snapshot in ancestors(worker.base):
        match snapshot.origin:
            case "foreign":
                if rules.skip_respects_foreign:
                    return False
            case "refresh":
                if snapshot.parts >> part & 1 or not rules.skip_is_per_partition:
                    return w.log[snapshot.seq] == w.log[worker.seq] and (
                        snapshot.definition == worker.definition or not rules.skip_compares_definition
                    )
            case _:
                pass
    return False


def _is_unchanged_in_ledger(w: World, worker: Worker, part: int) -> bool:
    """Decide by the last run of the ledger that succeeded; main must be what it has published."""
    done = [number for number, run in enumerate(w.runs, 1) if run.status == "SUCCEEDED"]
    newest = max(done, key=lambda number: w.runs[number - 1].claim, default=0)
    of_part = [number for number in done if w.runs[number - 1].parts >> part & 1]
    main = next((each for each in ancestors(worker.base) if each.origin in ("refresh", "foreign")), None)
    if not of_part or main is None or main.name[0] != newest:
        return False
    last = w.runs[max(of_part, key=lambda number: w.runs[number - 1].claim) - 1]
    return w.log[last.seq] == w.log[worker.seq] and last.definition == worker.definition


# ---------------------------------------------------------------------------------------------------- write


def write(case: Case, w: World, worker: Worker) -> World:
    """Write the rows to a pending snapshot that follows the main that decide has read."""
    if worker.parts & case.scenario.poison:
        return finish(case, w, worker, "FAILED")
    staged = repeated(case, pending(case, w, worker), w.storage)
    is_change = case.scenario.is_incremental and _has_own_rows(worker)
    return with_worker(w, worker._replace(step="publish", staged=staged, is_change=is_change))


def _has_own_rows(worker: Worker) -> bool:
    """Return whether the rows of the base are those of a run by the same definition."""
    newest = next(each for each in ancestors(worker.base) if each.origin not in SAME_ROWS)
    return newest.origin == "refresh" and newest.definition == worker.definition


def pending(case: Case, w: World, worker: Worker) -> Snapshot:
    """Return the snapshot with the rows of the worker, which follows its base."""
    assert worker.base is not None
    cells = list(worker.base.cells)
    for place, part in enumerate(bits(worker.parts & ~WHOLE)):
        seq = worker.seq if case.rules.rows_are_pinned or place == 0 else len(w.log) - 1
        cells[part] = Cell(seq, worker.definition, worker.run)
    return Snapshot(
        "refresh",
        tuple(cells),
        worker.base,
        worker.name,
        worker.parts,
        worker.seq,
        worker.definition,
        number=w.storage.number + 1,
        claim=worker.claim,
    )


# -------------------------------------------------------------------------------------------------- publish


def plan_publish(case: Case, w: World, worker: Worker, storage: Storage) -> Change | World:
    rules = case.rules
    staged = worker.staged
    assert staged is not None
    if rules.publish_looks_for_itself and is_published(case, worker, storage):
        if not rules.published_files_are_kept:
            _discard(case, w, worker)
        return finish(case, w, worker, "SUCCEEDED")
    if rules.publish_looks_for_later and storage.epoch > worker.claim:
        return give_up(w, worker)
    if withdrawn(w, worker.run):
        _discard(case, w, worker)
        return finish(case, w, worker, "CANCELED")
    is_outdated = rules.publish_needs_its_base and not _may_replace(case, worker, storage.main)
    is_next = staged.number == storage.number + 1
    if is_outdated or not (is_next or rules.pending_is_repeated):
        if worker.restarts < case.scenario.most_restarts:
            _discard(case, w, worker)
        return restart(case, w, worker)
    return Change(
        staged if is_next else repeated(case, staged, storage),
        drop=dropped(case, storage),
        epoch=worker.claim if rules.epoch_is_written else None,
        last=worker.name,
        claim=worker.claim,
    )


def _discard(case: Case, w: World, worker: Worker) -> None:
    """Delete the files of the pending snapshot, unless a publish of it may take effect."""
    if worker.staged is not None and not (worker.is_sent and case.rules.sent_files_are_kept):
        deletes_files(w, worker.staged)


def _may_replace(case: Case, worker: Worker, main: Snapshot) -> bool:
    """Return whether the rows of the worker may replace main.

    Rows of all partitions may replace those of another writer, but not the snapshot of another run, which its
    next attempt looks for among the ancestors of main. Other rows may replace only those of their base.
    """
    if not worker.parts & WHOLE or worker.is_change:
        return has_rows_of(main, worker.base)
    if not case.rules.recomputation_spares_runs:
        return True
    since = takewhile(lambda snapshot: snapshot != worker.base, ancestors(main))
    return all(snapshot.origin != "refresh" for snapshot in since)


# ---------------------------------------------------------------------------------------------------- close


def plan_close(case: Case, w: World, worker: Worker, storage: Storage) -> Change | World:
    rules = case.rules
    if rules.close_looks_for_itself and is_published(case, worker, storage):
        return finish(case, w, worker, "SUCCEEDED")
    if rules.close_looks_for_later and storage.epoch > worker.claim:
        return give_up(w, worker)
    if worker.step == "close unchanged" and rules.skip_closes_what_it_saw and storage.main != worker.base:
        return restart(case, w, worker)
    if not rules.close_moves_main:
        return closed_now(case, w, worker)
    return Change(
        closed(storage),
        drop=dropped(case, storage),
        epoch=worker.claim if rules.epoch_is_written else None,
        claim=worker.claim,
    )
