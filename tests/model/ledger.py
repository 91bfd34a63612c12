"""The ledger of the model: requests, claims, ends, cancels and lost runs, each in one transaction.

It follows `mt_core/tables/runs/ledger.py` and `mt_core/tables/runs/periodic.py`.
"""

from __future__ import annotations

from tests.model.properties import Property, must
from tests.model.rules import Case
from tests.model.world import (
    DONE,
    OPEN,
    WHOLE,
    Cell,
    Parts,
    Points,
    Run,
    Status,
    Worker,
    World,
    ancestors,
    bits,
    holds,
    shown,
    swapped,
    with_run,
    withdrawn,
)

# ------------------------------------------------------------------------------------------------- requests


def request(case: Case, w: World, run: Run) -> World:
    """Attach a request to the run with its key, skip it, coalesce it, or queue it."""
    rules, same = case.rules, None
    if run.key is not None:
        same = next((number for number, old in enumerate(w.runs) if old.key == run.key), None)
    if same is not None:
        is_open_or_done = shown(w, w.runs[same]) not in ("FAILED", "CANCELED") and not w.runs[same].cancel
        if rules.keys_are_compared:
            if is_open_or_done:
                return w
            w = w._replace(runs=swapped(w.runs, same, w.runs[same]._replace(key=None)))
        else:
            must(not is_open_or_done, Property.ONE_RUN_PER_KEY, "the key has a second run beside", same + 1)
    if run.kind == "periodic" and w.is_suspended:
        points = 0 if rules.suspended_covers_nothing else run.points
        skipped = run._replace(status="SKIPPED", key=None, points=points)
        return w._replace(runs=(*w.runs, skipped), covered=w.covered | points)
    for number, host in enumerate(w.runs, 1):
        fits = host.kind == run.kind and not host.solo and not host.cancel and host.status == "QUEUED"
        if fits and not (host.claim and rules.coalesced_before_claim):
            wider = host._replace(points=host.points | run.points, parts=host.parts | run.parts)
            w = with_run(w, number, wider)
            return w._replace(runs=(*w.runs, run._replace(status="COALESCED", cover=number, points=0)))
    return w._replace(runs=(*w.runs, run))


def tick(case: Case, w: World, point: int, key: int) -> World:
    """The request of the scheduler for the schedule time *point*, from 1."""
    points = 1 << (point - 1)
    parts = case.parts_of(points)
    return request(
        case,
        w,
        Run(
            "periodic",
            "QUEUED",
            parts,
            key=(point, key),
            points=points,
            wanted=parts & ~WHOLE,
            since=w.at[point - 1],
        ),
    )


def refresh(case: Case, w: World, parts: Parts) -> World:
    """REFRESH of some partitions or of the table."""
    asked = Run(
        "manual",
        "QUEUED",
        parts,
        wanted=parts & ~WHOLE,
        since=len(w.log) - 1,
        since_definition=w.definition,
    )
    return request(case, w, asked)


def alter(case: Case, w: World) -> World:
    """ALTER … AS: another definition, and a run of the whole table."""
    w = w._replace(definition=w.definition + 1, rebuild_due=case.rules.rebuild_stays_due)
    rebuild = Run(
        "rebuild",
        "QUEUED",
        case.all,
        wanted=case.all & ~WHOLE,
        since=len(w.log) - 1,
        since_definition=w.definition,
    )
    return w._replace(runs=(*w.runs, rebuild))


# --------------------------------------------------------------------------------------------------- claims


def due(w: World) -> Points:
    return ((1 << w.now) - 1) & ~w.covered


def claim(case: Case, w: World, *, is_last_release: bool = False) -> World | None:
    """Claim the oldest run that can begin; single retries come after all others."""
    if case.rules.one_is_running and any(run.status == "RUNNING" for run in w.runs):
        return None
    queued = [number for number, run in enumerate(w.runs, 1) if run.status == "QUEUED"]
    if not queued:
        return None
    number = next((number for number in queued if not w.runs[number - 1].solo), queued[0])
    run = w.runs[number - 1]
    if run.claim == 0:
        run = _widened(case, w, run)
    return _claimed(case, w, number, run, is_last_release=is_last_release)


def claim_continuous(case: Case, w: World, *, is_last_release: bool = False) -> World | None:
    """Claim the table for a continuous run, if no run of it is open."""
    if w.is_suspended or any(run.status in OPEN for run in w.runs):
        return None
    w = w._replace(runs=(*w.runs, Run("continuous", "QUEUED", case.all)))
    return _claimed(case, w, len(w.runs), w.runs[-1], is_last_release=is_last_release)


def _claimed(case: Case, w: World, number: int, run: Run, *, is_last_release: bool = False) -> World:
    running = any(each.status == "RUNNING" for each in w.runs)
    must(not running, Property.ONE_RUNNING, "a second run is claimed:", number)
    is_lost = run.attempt > case.scenario.most_losses
    worker = Worker(
        "close" if is_lost else "open" if is_last_release and run.attempt > 1 else "decide",
        number,
        run.attempt,
        w.claim + 1,
        w.definition,
        must_close=run.attempt > 1 if is_last_release else _follows_lost(case, w, run),
        end="FAILED" if is_lost else None,
        is_last_release=is_last_release,
    )
    run = run._replace(status="RUNNING", claim=worker.claim)
    return with_run(w, number, run)._replace(claim=worker.claim, workers=(worker, *w.workers))


def _follows_lost(case: Case, w: World, run: Run) -> bool:
    """Return whether the table's previous claim was lost."""
    if not case.rules.close_after_lost_claim:
        return False
    if run.attempt > 1 or not case.rules.close_after_any_lost_claim:
        return run.attempt > 1
    return any(
        each.claim == w.claim > 0
        and (each.status == "QUEUED" or (each.status == "CANCELED" and each.kind == "continuous"))
        for each in w.runs
    )


def _widened(case: Case, w: World, run: Run) -> Run:
    """Return *run* with all schedule times that are due when it is claimed."""
    if run.kind != "periodic" or (run.solo and case.rules.single_stays_single):
        return run
    if w.rebuild_due:
        run = run._replace(parts=case.all)
    if not run.points or not case.scenario.is_partitioned:
        return run
    until = run.points.bit_length()
    if not due(w) >> (until - 1) & 1:
        return run
    left_out = 0 if run.parts & WHOLE else w.failing & ~run.points
    points = run.points | (due(w) & ((1 << until) - 1) & ~left_out)
    return run._replace(points=points, parts=run.parts | case.parts_of(points))


# ----------------------------------------------------------------------------------------------------- ends


def end(case: Case, w: World, worker: Worker) -> World:
    """Record how the run of *worker* has ended. The worker is gone."""
    run, status = w.runs[worker.run - 1], worker.end
    assert status is not None
    if not holds(w, worker):
        if case.rules.ledger_compares_claim:
            return w
        must(False, Property.REPLACED_IS_SILENT, "a worker without the run ends it: run", worker.run)
    if status == "SUCCEEDED" and run.kind != "continuous":
        must(run.published > 0, Property.FORWARD, "SUCCEEDED, but not published: run", worker.run)
        # The position is that of the snapshot, which an earlier attempt may have published.
        of_run = (each for each in ancestors(w.storage.main) if each.name == worker.name)
        snapshot = next((each for each in of_run if each.origin == "refresh"), None)
        if snapshot is not None:
            run = run._replace(seq=snapshot.seq, definition=snapshot.definition)
            answered(w, worker.run, snapshot.cells)
    elif status == "SKIPPED" and run.kind != "continuous":
        must(run.published == 0, Property.ONCE, "published, but recorded SKIPPED: run", worker.run)
        check_still_unchanged(w, worker, run.parts)
        run = run._replace(unchanged=worker.seq)
        answered(w, worker.run, (Cell(worker.seq, worker.definition, worker.run),) * case.width)
    elif run.kind != "continuous":
        must(run.published == 0, Property.ONCE, f"published, but recorded {status}: run", worker.run)
    return record(case, with_run(w, worker.run, run), worker.run, status)


def record(case: Case, w: World, number: int, status: Status) -> World:
    """Write the end of a run, with what follows from it."""
    run = w.runs[number - 1]._replace(status=status)
    w = with_run(w, number, run)
    if status in DONE:
        w = w._replace(covered=w.covered | run.points, failing=w.failing & ~run.points)
        if run.parts & WHOLE and run.definition == w.definition:
            w = w._replace(rebuild_due=False)
    if run.kind != "periodic" or not run.points or not case.scenario.is_partitioned:
        return w
    if status == "FAILED" and run.solo and run.points.bit_count() == 1:
        w = w._replace(failing=w.failing | (run.points & due(w)))
    if status == "FAILED" and (run.points.bit_count() > 1 or (not run.solo and run.parts & WHOLE)):
        return _queue_next(case, w, run.points)
    if run.solo:
        return _queue_next(case, w, run.rest)
    if status in DONE and w.failing:
        return _queue_single(case, w, w.failing, 0)
    return w


def _queue_next(case: Case, w: World, points: Points) -> World:
    """Queue a single run of the newest of *points* that is due; the others follow it."""
    points &= due(w)
    if not points:
        return w
    first = 1 << (points.bit_length() - 1)
    return _queue_single(case, w, first, points & ~first)


def _queue_single(case: Case, w: World, points: Points, rest: Points) -> World:
    for number, run in enumerate(w.runs, 1):
        if run.solo and run.status == "QUEUED":
            more = (points | rest) & ~run.points
            return with_run(w, number, run._replace(rest=run.rest | more))
    parts = case.parts_of(points)
    single = Run(
        "periodic",
        "QUEUED",
        parts,
        points=points,
        solo=True,
        rest=rest,
        wanted=parts & ~WHOLE,
        since=w.at[points.bit_length() - 1] if points.bit_count() == 1 else 0,
    )
    return w._replace(runs=(*w.runs, single))


def cancel(case: Case, w: World, number: int) -> World:
    """Cancel the request of one requester."""
    w = with_run(w, number, w.runs[number - 1]._replace(cancel=True))
    number = w.runs[number - 1].cover or number
    run = w.runs[number - 1]
    at_once = run.status == "QUEUED" and not (run.claim and case.rules.canceled_before_claim)
    if at_once and withdrawn(w, number):
        must(run.published == 0, Property.ONCE, "published, but recorded CANCELED: run", number)
        return record(case, w, number, "CANCELED")
    return w


def lose(case: Case, w: World, number: int) -> World:
    """The lease of a run has lapsed: it is queued again; a continuous run is cancelled."""
    run = w.runs[number - 1]
    if run.kind == "continuous":
        return with_run(w, number, run._replace(status="CANCELED"))
    if run.attempt >= case.scenario.most_losses and not case.rules.last_loss_closes:
        must(run.published == 0, Property.ONCE, "published, but recorded FAILED: run", number)
        return record(case, w, number, "FAILED")
    return with_run(w, number, run._replace(status="QUEUED", attempt=run.attempt + 1))


# ----------------------------------------------------------------------------------------------- properties


def check_unchanged(w: World, worker: Worker, parts: Parts) -> None:
    """Check that *parts* contain what the run of *worker* leaves out as unchanged."""
    for part in bits(parts & ~WHOLE):
        cell = w.storage.main.cells[part]
        is_same = (
            cell is not None
            and cell.run > 0
            and w.log[cell.seq] == w.log[worker.seq]
            and cell.definition == worker.definition
        )
        must(is_same, Property.SKIP_IS_RIGHT, f"{worker} leaves out {part} as unchanged, which has", cell)


def check_still_unchanged(w: World, worker: Worker, parts: Parts) -> None:
    """Check the same at the end of the run or batch. Another writer may have replaced rows meanwhile."""
    cells = enumerate(w.storage.main.cells)
    others = sum(1 << part for part, cell in cells if cell is not None and not cell.run)
    check_unchanged(w, worker, parts & ~others)


def answered(w: World, number: int, cells: tuple[Cell | None, ...]) -> None:
    """Check what the requesters of a run that is DONE are told."""
    for run in w.runs:
        if (run is w.runs[number - 1] or run.cover == number) and not run.cancel:
            for part in bits(run.wanted):
                cell = cells[part]
                if cell is not None and not cell.run:
                    # Another writer has replaced it since the decision, which was checked.
                    continue
                is_fresh = (
                    cell is not None
                    and w.log[cell.seq] in w.log[run.since :]
                    and cell.definition >= run.since_definition
                )
                must(is_fresh, Property.SKIP_IS_RIGHT, f"a requester of {part} is told done, which has", cell)
