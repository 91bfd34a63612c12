"""The refresh protocol as a system to search: everything that may happen in a state, and the run to rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tests.model import ledger, refresh, table, workers
from tests.model.properties import Property, must
from tests.model.rules import EVENTS, Case, Rules, Scenario
from tests.model.search import Label
from tests.model.world import (
    OPEN,
    WHOLE,
    Cell,
    Change,
    Parts,
    Snapshot,
    Storage,
    Worker,
    World,
    bits,
    shown,
    with_worker,
    without_worker,
)

Events = Iterator[tuple[Label, Callable[[], World | None]]]
_PLACE = {event: place for place, event in enumerate(EVENTS)}
# The key of the request for the schedule time that passes on the way to rest.
_LAST_KEY = -1


class RefreshProtocol:
    """The protocol by *rules* in a *scenario*: a model for `tests.model.search.explore`."""

    def __init__(self, scenario: Scenario, rules: Rules | None = None) -> None:
        self.case = Case(rules or Rules(), scenario)
        self._scenario = scenario

    def initial(self) -> World:
        created = Snapshot("created", (None,) * self.case.width)
        return World(Storage(created), left=self.case.budget)

    # --------------------------------------------------------------------------------------------- events

    def events(self, w: World) -> Events:
        left = dict(zip(EVENTS, w.left, strict=True))
        for worker in w.workers:
            yield from self._of_worker(w, worker, left)
        if len(w.workers) < self._scenario.most_workers:
            yield from self._claims(w, left)
        for flight in w.flights:
            yield ("a commit without an answer takes effect",), partial(self._lands, w, flight)
        if w.compaction is not None or left["compactions"]:
            yield from self._of_compaction(w, left)
        yield from self._of_ledger(w, left)
        yield from self._of_users(w, left)
        yield from self._of_sources(w, left)

    def _of_worker(self, w: World, worker: Worker, left: dict[str, int]) -> Events:
        case = self.case
        yield (worker, worker.step, worker.end or ""), partial(workers.advance, case, w, worker)
        if left["crashes"]:
            yield (
                (worker, "dies before", worker.step),
                partial(without_worker, _spent(w, "crashes"), worker),
            )
        if left["failures"] and worker.step == "write":
            yield (worker, "fails"), partial(refresh.finish, case, _spent(w, "failures"), worker, "FAILED")
        if (
            left["unanswered"]
            and worker.step in workers.COMMITS
            and (worker.read or not self._scenario.is_split)
        ):
            spent = _spent(w, "unanswered")
            yield (
                (worker, worker.step, "takes effect without an answer"),
                partial(self._took_effect, spent, worker),
            )
            yield (worker, worker.step, "has no answer"), partial(self._may_land, spent, worker)
            yield (
                (worker, worker.step, "takes effect, and the answer is a conflict"),
                partial(self._took_effect, spent, worker, is_answered=True),
            )
        if worker.step == "idle" and worker.seq != len(w.log) - 1:
            yield (worker, "begins a batch"), partial(with_worker, w, worker._replace(step="decide"))

    def _took_effect(self, w: World, worker: Worker, *, is_answered: bool = False) -> World | None:
        planned = workers.plan(self.case, w, worker)
        if isinstance(planned, World):
            return None
        w = table.commit(self.case, w, planned)
        if is_answered:
            return with_worker(w, worker._replace(read=None))
        return workers.unanswered(self.case, w, worker)

    def _may_land(self, w: World, worker: Worker) -> World | None:
        planned = workers.plan(self.case, w, worker)
        if isinstance(planned, World):
            return None
        return workers.unanswered(self.case, w._replace(flights=(*w.flights, planned)), worker)

    def _lands(self, w: World, flight: Change) -> World:
        others = tuple(each for each in w.flights if each is not flight)
        return table.commit(self.case, w._replace(flights=others), flight)

    def _claims(self, w: World, left: dict[str, int]) -> Events:
        case = self.case
        yield ("a worker claims",), partial(ledger.claim, case, w)
        if left["last_release"]:
            spent = _spent(w, "last_release")
            yield (
                ("a worker of the last release claims",),
                partial(ledger.claim, case, spent, is_last_release=True),
            )
        if left["stretches"]:
            spent = _spent(w, "stretches")
            yield ("a continuous run begins",), partial(ledger.claim_continuous, case, spent)
            if left["last_release"]:
                yield (
                    ("a continuous run of the last release begins",),
                    partial(
                        ledger.claim_continuous, case, _spent(spent, "last_release"), is_last_release=True
                    ),
                )

    def _of_compaction(self, w: World, left: dict[str, int]) -> Events:
        case = self.case
        if w.compaction is None:
            begun = partial(table.begin_compaction, _spent(w, "compactions"))
            for part in range(case.width):
                yield ("a compaction of", part, "begins"), partial(begun, part, left["compactions"])
            return
        yield ("the compaction goes on",), partial(table.compact, case, w)
        if left["crashes"]:
            yield ("the compaction dies",), partial(_spent(w, "crashes")._replace, compaction=None)
        change = table.compacted(w, w.compaction) if left["unanswered"] else None
        if change is not None:
            spent, is_sent = _spent(w, "unanswered"), w.compaction._replace(is_sent=True)
            yield (
                ("the publish of the compaction has no answer",),
                partial(spent._replace, flights=(*w.flights, change), compaction=is_sent),
            )
            yield (
                ("the publish of the compaction takes effect, and the answer is a conflict",),
                partial(table.commit, case, spent, change),
            )

    def _of_ledger(self, w: World, left: dict[str, int]) -> Events:
        case = self.case
        for number, run in enumerate(w.runs, 1):
            if run.status == "RUNNING":
                is_alive = any((each.run, each.claim) == (number, run.claim) for each in w.workers)
                if not is_alive or left["lapses"]:
                    spent = _spent(w, "lapses") if is_alive else w
                    yield ("the lease of run", number, "lapses"), partial(ledger.lose, case, spent, number)
            if left["cancels"] and not run.cancel and shown(w, run) in OPEN and run.kind != "continuous":
                yield ("cancel of run", number), partial(ledger.cancel, case, _spent(w, "cancels"), number)

    def _of_users(self, w: World, left: dict[str, int]) -> Events:
        case = self.case
        for point in range(1, w.now + 1):
            if left["ticks"]:
                yield ("tick of", point), partial(ledger.tick, case, _spent(w, "ticks"), point, 0)
            if left["clears"]:
                spent = _spent(w, "clears")
                yield (
                    ("tick with a new key of", point),
                    partial(ledger.tick, case, spent, point, left["clears"]),
                )
        if left["refreshes"]:
            for parts in self._refreshed():
                yield ("REFRESH", _named(parts)), partial(ledger.refresh, case, _spent(w, "refreshes"), parts)
        if left["alters"]:
            yield ("ALTER AS",), partial(ledger.alter, case, _spent(w, "alters"))
        if left["maintenances"] and not case.rules.maintenance_commits_nothing:
            yield ("expiry claims the table",), partial(table.maintain, case, _spent(w, "maintenances"))
        if w.is_suspended:
            yield ("RESUME",), partial(w._replace, is_suspended=False)
        elif left["suspends"]:
            yield ("SUSPEND",), partial(_spent(w, "suspends")._replace, is_suspended=True)

    def _refreshed(self) -> list[Parts]:
        points = range(self._scenario.points) if self._scenario.is_partitioned else ()
        return [*(1 << point for point in points), self.case.all]

    def _of_sources(self, w: World, left: dict[str, int]) -> Events:
        if w.now < self._scenario.points:
            yield ("schedule time", w.now + 1, "passes"), partial(_passed, w)
        if left["commits"]:
            yield ("the source changes",), partial(_logged, _spent(w, "commits"), max(w.log) + 1)
        if left["rollbacks"] and w.log[-1]:
            yield ("the source is rolled back",), partial(_logged, _spent(w, "rollbacks"), w.log[-1] - 1)
        if left["asides"]:
            yield (
                ("another writer commits to its branch",),
                partial(table.aside, self.case, _spent(w, "asides")),
            )
        if left["foreigns"]:
            for part in range(self._scenario.points if self._scenario.is_partitioned else 1):
                yield (
                    ("another writer replaces", part),
                    partial(table.foreign, self.case, _spent(w, "foreigns"), part),
                )

    # --------------------------------------------------------------------------------------------- to rest

    def calm(self, w: World) -> World:
        return w._replace(workers=(), flights=(), compaction=None, left=())

    def settle(self, w: World) -> World | None:
        case = self.case
        if w.workers:
            worker = w.workers[0]
            if worker.step == "idle" and worker.seq != len(w.log) - 1:
                return with_worker(w, worker._replace(step="decide"))
            return workers.advance(case, w, worker)
        for number, run in enumerate(w.runs, 1):
            if run.status == "RUNNING":
                return ledger.lose(case, w, number)
        claimed = ledger.claim(case, w)
        if claimed is not None:
            return claimed
        return self._requested(w._replace(last_requests=w.last_requests + 1))

    def _requested(self, w: World) -> World | None:
        """Make the last requests, one after the other; at rest after each, check what must hold."""
        match w.last_requests:
            case 1:
                w = _passed(w._replace(is_suspended=False))
                if self.case.is_continuous:
                    return ledger.claim_continuous(self.case, w)
                return ledger.tick(self.case, w, w.now, _LAST_KEY)
            case 2:
                self._check_rest(w)
                return ledger.refresh(self.case, w, self.case.all)
            case _:
                is_failed = w.runs[-1].status == "FAILED"
                must(is_failed or not w.storage.branches, Property.ENDS, "a branch outlives a publish")
                return None

    def _check_rest(self, w: World) -> None:
        scenario = self._scenario
        must(all(run.status not in OPEN for run in w.runs), Property.ENDS, "a request has not ended")
        if self.case.is_continuous:
            for part in range(self.case.width):
                self._check_cell(w, part, w.log[-1:])
            return
        due = [point for point in bits(ledger.due(w)) if not self.case.parts_of(1 << point) & scenario.poison]
        must(not due or not scenario.is_partitioned, Property.ENDS, "schedule times stay due:", due)
        for point in range(w.now):
            for part in bits(self.case.parts_of(1 << point) & ~WHOLE & ~scenario.poison):
                since = w.log[w.at[point] :] if scenario.is_partitioned else w.log[-1:]
                self._check_cell(w, part, since)

    def _check_cell(self, w: World, part: int, versions: tuple[int, ...]) -> None:
        cell: Cell | None = w.storage.main.cells[part]
        if (
            cell is not None
            and not cell.run
            and self._scenario.is_partitioned
            and not self.case.is_continuous
        ):
            # Another writer has replaced it after its run.
            return
        is_current = cell is not None and cell.run > 0 and w.log[cell.seq] in versions
        is_defined = cell is not None and (cell.definition == w.definition or bool(self._scenario.poison))
        must(is_current and is_defined, Property.ENDS, f"{part} rests with", cell)


def _spent(w: World, event: str) -> World:
    """Return the world in which *event* may happen once less."""
    place = _PLACE[event]
    return w._replace(left=(*w.left[:place], w.left[place] - 1, *w.left[place + 1 :]))


def _passed(w: World) -> World:
    return w._replace(now=w.now + 1, at=(*w.at, len(w.log) - 1))


def _logged(w: World, version: int) -> World:
    return w._replace(log=(*w.log, version))


def _named(parts: Parts) -> str:
    return "whole" if parts & WHOLE else "of " + ", ".join(map(str, bits(parts)))
