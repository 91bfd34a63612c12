"""What a worker does next. Workers of this release and of the last one differ in their steps.

A step that commits is planned first, as the commit or as what happens instead of it, because the commit may
also have no answer: then it has taken effect, or may do so later.
"""

from __future__ import annotations

from tests.model import last_release, refresh
from tests.model.ledger import end
from tests.model.rules import Case
from tests.model.table import commit
from tests.model.world import Change, Worker, World, with_worker, without_worker

COMMITS = ("open", "publish", "close", "close unchanged")


def advance(case: Case, w: World, worker: Worker) -> World:
    """Take the next step of *worker*; nothing goes wrong."""
    match worker.step:
        case "decide":
            decide = last_release.decide if worker.is_last_release else refresh.decide
            return decide(case, w, worker)
        case "look":
            return refresh.look(case, w, worker)
        case "write":
            write = last_release.write if worker.is_last_release else refresh.write
            return write(case, w, worker)
        case "idle":
            return refresh.finish(case, w, worker, "SUCCEEDED" if worker.batch > 1 else "SKIPPED")
        case "end":
            return end(case, without_worker(w, worker), worker)
        case _:
            planned = plan(case, w, worker)
            if isinstance(planned, World):
                return planned
            return _answered(case, commit(case, w, planned), worker._replace(read=None))


def plan(case: Case, w: World, worker: Worker) -> Change | World:
    """Return what *worker* commits in its step, or the world after the step if it commits nothing."""
    if case.scenario.is_split and worker.read is None:
        return with_worker(w, worker._replace(read=w.storage))
    storage, worker = worker.read or w.storage, worker._replace(read=None)
    if worker.is_last_release:
        return last_release.plan(case, w, worker, storage)
    if worker.step == "publish":
        return refresh.plan_publish(case, w, worker, storage)
    return refresh.plan_close(case, w, worker, storage)


def _answered(case: Case, w: World, worker: Worker) -> World:
    """Return the world after the worker has got the answer that its commit has taken effect."""
    if worker.is_last_release:
        return last_release.answered(case, w, worker)
    if worker.step == "publish":
        return refresh.finish(case, w, worker._replace(must_close=False), "SUCCEEDED")
    return refresh.closed_now(case, w, worker)


def unanswered(case: Case, w: World, worker: Worker) -> World:
    """Return the world after the worker has got no answer."""
    must_close = worker.must_close or (case.rules.close_after_no_answer and not worker.is_last_release)
    worker = worker._replace(read=None, must_close=must_close, is_sent=not worker.is_last_release)
    if case.rules.answers_are_read:
        return with_worker(w, worker)
    return refresh.finish(case, w, worker, "FAILED")
