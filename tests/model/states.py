"""The states of stages beside the refresh protocol: a system of its own, with one stage.

It follows `mt_core/spark/states`. That main is moved only from where it was read, by one worker at a time, is
searched by `tests/model/protocol.py`; here, a worker is one run that decides, writes its state and publishes.
A state is tiny (in the property) or has a table. The content of a state is the position in the log of the
sources whose groups it has; a change that is added to the groups of another position makes it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from tests.model.properties import Property, must
from tests.model.search import Found, Label, explore

WRONG, FOREIGN = -1, -2
Events = Iterator[tuple[Label, Callable[[], "World | None"]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRules:
    """The rules that hold; by default all."""

    states_are_named: bool = True
    """A run reads the state that main names, not the newest one."""
    states_follow_what_was_read: bool = True
    """The parent of a new state is the snapshot that was read, not the newest one."""
    states_are_on_branches: bool = True
    """A new state is on a branch of its own; the main of its table is only set to a named snapshot."""
    main_of_states_moves_forward: bool = True
    """The main of the table is not set back to an earlier snapshot."""
    newer_branches_are_kept: bool = True
    """A write keeps the branches that are newer than the state that main names: they may be published yet."""
    branches_of_writes_are_dropped: bool = True
    """A write drops branches at all."""
    property_names_its_publish: bool = True
    """Tiny states are those of main only if the property names the publish of main."""
    property_comes_with_its_publish: bool = True
    """The property is set by the commit that publishes."""
    other_rows_have_no_state: bool = True
    """A run looks for names only in the newest snapshot that describes rows, whoever has written it."""
    names_are_repeated: bool = True
    """Compaction and close repeat the names of states."""
    named_states_are_kept: bool = True
    """Expiry keeps the states that any snapshot of the materialized table names."""


class StateScenario(NamedTuple):
    """How often each event may happen."""

    name: str
    runs: int = 3
    commits: int = 2
    crashes: int = 0
    # A second worker claims while the first is alive.
    lapses: int = 0
    unanswered: int = 0
    foreigns: int = 0
    # Compactions and closes, and compactions by hand.
    compactions: int = 0
    rewrites: int = 0
    # Another writer sets main back.
    rollbacks: int = 0
    # Our expiry of both tables, and the expiry of a state table by another engine.
    expiries: int = 0
    other_expiries: int = 0
    is_tiny: bool = False


EVENTS = StateScenario._fields[1:-1]
_PLACE = {event: place for place, event in enumerate(EVENTS)}


class Main(NamedTuple):
    """A snapshot of the materialized table: its rows, the publish that its summary names, and the state."""

    kind: Literal["created", "run", "foreign", "compacted", "rewritten"]
    rows: int = WRONG
    publish: int = 0
    state: int | None = None
    parent: Main | None = None


class State(NamedTuple):
    """A snapshot of the state table."""

    number: int
    content: int


class Worker(NamedTuple):
    """A run. It follows the snapshot `base`."""

    run: int
    step: Literal["decide", "write", "publish"] = "decide"
    base: Main | None = None
    at: int = 0
    written: int | None = None
    tiny: int | None = None
    restarts: int = 0
    is_sent: bool = False


class World(NamedTuple):
    """Everything."""

    main: Main = Main("created")
    # The property: the publish that it names, and a content.
    tiny: tuple[int, int] | None = None
    epoch: int = 0
    states: tuple[State, ...] = ()
    state_main: int = 0
    # The heads of the branches of writes.
    branches: tuple[int, ...] = ()
    numbers: int = 0
    workers: tuple[Worker, ...] = ()
    flights: tuple[tuple[Main, Worker], ...] = ()
    runs: int = 0
    log: int = 0
    left: tuple[int, ...] = ()
    # Ghost: the last publish, and whether another engine has expired states.
    last: int = 0
    is_thinned: bool = False
    # On the way to rest: the number of runs.
    last_runs: int = 0


def describing(main: Main | None) -> Main | None:
    """Return the newest snapshot that says where the rows come from, or None if it has expired."""
    while main is not None and main.kind == "rewritten":
        main = main.parent
    return main


class KeptStatesModel:
    """Kept states by *rules* in a *scenario*: a model for `tests.model.search.explore`."""

    def __init__(self, scenario: StateScenario, rules: StateRules | None = None) -> None:
        self._scenario, self._rules = scenario, rules or StateRules()

    def initial(self) -> World:
        return World(left=tuple(int(getattr(self._scenario, event)) for event in EVENTS))

    # --------------------------------------------------------------------------------------------- events

    def events(self, w: World) -> Events:
        left = dict(zip(EVENTS, w.left, strict=True))
        for worker in w.workers:
            yield from self._of_worker(w, worker, left)
        for flight in w.flights:
            yield ("a publish without an answer lands",), partial(self._lands, w, flight)
        if left["runs"] and (not w.workers or (len(w.workers) < 2 and left["lapses"])):
            spent = _spent(w, "lapses") if w.workers else w
            yield ("a worker claims",), partial(_claims, _spent(spent, "runs"))
        if left["commits"]:
            yield ("the source changes",), partial(_spent(w, "commits")._replace, log=w.log + 1)
        yield from self._of_main(w, left)
        if left["expiries"] and (not w.workers or left["lapses"]):
            spent = _spent(w, "lapses") if w.workers else w
            yield ("expiry",), partial(self._expired, _spent(spent, "expiries"))
        if left["other_expiries"] and not self._scenario.is_tiny:
            spent = _spent(w, "other_expiries")
            yield ("another engine expires states",), partial(self._expired_by_others, spent)

    def _of_main(self, w: World, left: dict[str, int]) -> Events:
        if left["foreigns"]:
            foreign = Main("foreign", FOREIGN, parent=w.main)
            yield ("another writer replaces rows",), partial(_spent(w, "foreigns")._replace, main=foreign)
        if left["rewrites"]:
            rewritten = Main("rewritten", w.main.rows, parent=w.main)
            yield ("main is compacted by hand",), partial(_spent(w, "rewrites")._replace, main=rewritten)
        if left["compactions"]:
            yield ("main is compacted or closed",), partial(self._compacted, _spent(w, "compactions"))
        if left["rollbacks"] and not w.flights:
            for back, main in enumerate(_ancestors(w.main.parent), 1):
                yield ("main is rolled back by", back), partial(_spent(w, "rollbacks")._replace, main=main)

    def _of_worker(self, w: World, worker: Worker, left: dict[str, int]) -> Events:
        yield ("run", worker.run, worker.step), partial(self._advance, w, worker)
        if left["crashes"]:
            dies = partial(_without, _spent(w, "crashes"), worker)
            yield ("run", worker.run, "dies before", worker.step), dies
        if left["unanswered"] and worker.step == "publish":
            spent = _spent(w, "unanswered")
            yield ("run", worker.run, "gets no answer to its publish"), partial(self._sent, spent, worker)

    def _compacted(self, w: World) -> World | None:
        """Commit a snapshot that repeats the facts of main, if it has any."""
        main = w.main
        if main.kind not in ("run", "compacted"):
            return w._replace(main=Main("rewritten", main.rows, parent=main))
        state = main.state if self._rules.names_are_repeated else None
        return w._replace(main=Main("compacted", main.rows, main.publish, state, main))

    def _expired(self, w: World) -> World:
        """Expire the snapshots of the materialized table but the last 3, and the states that none names."""
        live = _newest(w.main, 3)
        named = {each.state for each in _ancestors(live) if self._rules.named_states_are_kept}
        assert live is not None
        keep = named | {w.state_main, *w.branches}
        return w._replace(main=live, states=tuple(each for each in w.states if each.number in keep))

    def _expired_by_others(self, w: World) -> World:
        held = {w.state_main, *w.branches}
        states = tuple(each for each in w.states if each.number in held)
        return w._replace(states=states, is_thinned=True)

    # ----------------------------------------------------------------------------------------------- a run

    def _advance(self, w: World, worker: Worker) -> World:
        match worker.step:
            case "decide":
                return self._decide(w, worker)
            case "write":
                return self._write(w, worker)
            case _:
                return self._publish(w, worker)

    def _decide(self, w: World, worker: Worker) -> World:
        base = describing(w.main)
        if w.epoch > worker.run or (base is not None and base.kind == "run" and base.rows == w.log):
            return _without(w, worker)
        return _with(w, worker._replace(step="write", base=w.main, at=w.log))

    def _write(self, w: World, worker: Worker) -> World:
        base = self._describing(worker.base)
        found = self._found(w, base)
        if base is not None and base.kind in ("run", "compacted") and base.publish:
            self._check_found(w, base, found)
        if found is not None and worker.base is not None:
            is_of_main = found.content == worker.base.rows
            must(is_of_main, Property.STATE_OF_MAIN, f"run {worker.run} reads a state of", found.content)
        if self._scenario.is_tiny:
            if not self._rules.property_comes_with_its_publish:
                w = w._replace(tiny=(worker.run, worker.at))
            return _with(w, worker._replace(step="publish", tiny=worker.at))
        return self._state_written(w, worker, found)

    def _describing(self, main: Main | None) -> Main | None:
        base = describing(main)
        while base is not None and base.kind == "foreign" and not self._rules.other_rows_have_no_state:
            base = describing(base.parent)
        return base

    def _found(self, w: World, base: Main | None) -> State | None:
        """Return the state from which the run starts, or None if it computes all rows."""
        if self._scenario.is_tiny:
            if base is None or w.tiny is None:
                return None
            is_named = w.tiny[0] == base.publish or not self._rules.property_names_its_publish
            return State(0, w.tiny[1]) if is_named else None
        if not self._rules.states_are_named:
            return w.states[-1] if w.states else None
        named = None if base is None else base.state
        return next((each for each in w.states if each.number == named), None)

    def _check_found(self, w: World, base: Main, found: State | None) -> None:
        is_last = base.publish == w.last
        if is_last or not (self._scenario.is_tiny or w.is_thinned):
            must(found is not None, Property.STATE_IS_KEPT, f"the state of run {base.publish} is lost")

    def _state_written(self, w: World, worker: Worker, found: State | None) -> World:
        """Commit a state to its table: the found one with a change added to it, or all groups."""
        parent = found
        names = (each.state for each in _ancestors(worker.base) if each.state is not None)
        named = next(names, 0) if found is None else found.number
        if found is not None and not self._rules.states_follow_what_was_read:
            parent = w.states[-1]
        is_right = parent is None or found is None or parent.content == found.content
        number = w.numbers + 1
        state = State(number, worker.at if is_right else WRONG)
        branches, state_main = w.branches, w.state_main
        if self._rules.branches_of_writes_are_dropped:
            keeps = self._rules.newer_branches_are_kept
            branches = tuple(each for each in branches if keeps and each > named)
        if self._rules.states_are_on_branches:
            branches = (*branches, number)
            if any(each.number == named for each in w.states):
                is_forward = named > state_main or not self._rules.main_of_states_moves_forward
                state_main = named if is_forward else state_main
        else:
            state_main = number
        w = w._replace(states=(*w.states, state), numbers=number, state_main=state_main, branches=branches)
        return _with(w, worker._replace(step="publish", written=number))

    def _published(self, worker: Worker, main: Main) -> Main:
        return Main("run", worker.at, worker.run, worker.written, main)

    def _publish(self, w: World, worker: Worker) -> World:
        if any(each.kind == "run" and each.publish == worker.run for each in _ancestors(w.main)):
            return _without(w, worker)
        if w.epoch > worker.run:
            return _without(w, worker)
        if not _has_rows_of(w.main, worker.base):
            if worker.restarts:
                return _without(w, worker)
            again = Worker(worker.run, restarts=1, is_sent=worker.is_sent)
            return _with(w, again)
        return _without(self._landed(w, worker, self._published(worker, w.main)), worker)

    def _landed(self, w: World, worker: Worker, main: Main) -> World:
        tiny = w.tiny
        if self._scenario.is_tiny and self._rules.property_comes_with_its_publish:
            tiny = None if worker.tiny is None else (worker.run, worker.tiny)
        flights = tuple(each for each in w.flights if each[0].parent == main)
        return w._replace(main=main, tiny=tiny, epoch=worker.run, last=worker.run, flights=flights)

    def _sent(self, w: World, worker: Worker) -> World | None:
        if w.epoch > worker.run or not _has_rows_of(w.main, worker.base) or worker.is_sent:
            return None
        flight = (self._published(worker, w.main), worker)
        return _with(w._replace(flights=(*w.flights, flight)), worker._replace(is_sent=True))

    def _lands(self, w: World, flight: tuple[Main, Worker]) -> World | None:
        main, worker = flight
        w = w._replace(flights=tuple(each for each in w.flights if each is not flight))
        # A catalog compares main with where the writer has read it.
        return self._landed(w, worker, main) if main.parent == w.main else None

    # --------------------------------------------------------------------------------------------- to rest

    def calm(self, w: World) -> World:
        return w._replace(workers=(), flights=(), left=())

    def settle(self, w: World) -> World | None:
        if w.workers:
            return self._advance(w, w.workers[0])
        if w.last_runs < 2:
            return _claims(w._replace(last_runs=w.last_runs + 1, log=w.log + 1))
        must(w.main.rows == w.log, Property.ENDS, "main rests with", w.main.rows)
        must(len(w.branches) <= 1, Property.ENDS, "branches of states stay:", len(w.branches))
        return None


def _ancestors(main: Main | None) -> Iterator[Main]:
    while main is not None:
        yield main
        main = main.parent


def _newest(main: Main | None, count: int) -> Main | None:
    """Return *main* with only its newest ancestors."""
    if main is None or not count:
        return None
    return main._replace(parent=_newest(main.parent, count - 1))


def _has_rows_of(main: Main, base: Main | None) -> bool:
    """Return whether main has the rows of *base*: whether only compactions have followed."""
    for each in _ancestors(main):
        if each == base or each.kind not in ("compacted", "rewritten"):
            return each == base
    return False


def _claims(w: World) -> World:
    number = w.runs + 1
    return w._replace(runs=number, workers=(*w.workers, Worker(number)))


def _with(w: World, worker: Worker) -> World:
    return w._replace(workers=tuple(worker if each.run == worker.run else each for each in w.workers))


def _without(w: World, worker: Worker) -> World:
    return w._replace(workers=tuple(each for each in w.workers if each.run != worker.run))


def _spent(w: World, event: str) -> World:
    place = _PLACE[event]
    return w._replace(left=(*w.left[:place], w.left[place] - 1, *w.left[place + 1 :]))


# ------------------------------------------------------------------------------------------------ the search


class StateMutation(NamedTuple):
    """Kept states without one rule, in a scenario that shows what breaks."""

    without: str
    broken: Property
    scenario: StateScenario


def searched(scenario: StateScenario, without: str | None = None) -> Found:
    """Search a scenario, without a rule."""
    rules = StateRules() if without is None else replace(StateRules(), **{without: False})
    return explore(KeptStatesModel(scenario, rules))


def _mutation(without: str, breaks: Property, **events: object) -> StateMutation:
    return StateMutation(without, breaks, StateScenario(f"without {without}", **events))  # type: ignore[arg-type]


STATE_SCENARIOS = (
    StateScenario("states", crashes=1, lapses=1, compactions=1, expiries=1),
    StateScenario("states, zombies", runs=4, lapses=2, other_expiries=1, compactions=1),
    StateScenario("states, unanswered", crashes=1, lapses=1, unanswered=1, other_expiries=1),
    StateScenario("states, foreign", crashes=1, foreigns=1, rewrites=1, compactions=1, lapses=1),
    StateScenario("states, rollback", rollbacks=1, crashes=1, expiries=1, compactions=1, lapses=1),
    StateScenario("states, rollback, others", rollbacks=1, lapses=1, other_expiries=1, rewrites=1),
    StateScenario("tiny states", crashes=1, lapses=1, compactions=1, unanswered=1, is_tiny=True),
    StateScenario("tiny states, foreign", crashes=1, foreigns=1, rewrites=1, compactions=1, is_tiny=True),
    StateScenario("tiny states, rollback", rollbacks=2, crashes=1, expiries=1, lapses=1, is_tiny=True),
)
STATE_MUTATIONS = (
    _mutation("states_are_named", Property.STATE_OF_MAIN, crashes=1),
    _mutation("states_follow_what_was_read", Property.STATE_OF_MAIN, crashes=1),
    _mutation("states_are_on_branches", Property.STATE_IS_KEPT, crashes=1, other_expiries=1),
    _mutation("newer_branches_are_kept", Property.STATE_IS_KEPT, lapses=1, other_expiries=1),
    _mutation("main_of_states_moves_forward", Property.STATE_IS_KEPT, runs=4, lapses=2, other_expiries=1),
    _mutation("branches_of_writes_are_dropped", Property.ENDS),
    _mutation("property_names_its_publish", Property.STATE_OF_MAIN, rollbacks=1, is_tiny=True),
    _mutation("property_comes_with_its_publish", Property.STATE_IS_KEPT, crashes=1, is_tiny=True),
    _mutation("other_rows_have_no_state", Property.STATE_OF_MAIN, foreigns=1),
    _mutation("names_are_repeated", Property.STATE_IS_KEPT, compactions=1),
    _mutation("named_states_are_kept", Property.STATE_IS_KEPT, runs=4, expiries=1, rollbacks=1),
)
