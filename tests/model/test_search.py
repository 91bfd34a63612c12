"""The search finds what a model does wrong, by its shortest history, and nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from tests.model.properties import Property, must
from tests.model.search import Label, explore

CALM = 1_000_000


@dataclass(frozen=True)
class Counter:
    """Counts up to *most* by steps of 1 and 2; never to *forbidden*; at rest it must not be *restless*."""

    most: int
    forbidden: int = -1
    restless: int = -1
    is_endless: bool = False

    def initial(self) -> int:
        return 0

    def events(self, state: int) -> Iterable[tuple[Label, Callable[[], int | None]]]:
        for step in (1, 2):
            yield ("add", step), partial(self._added, state, step)

    def _added(self, state: int, step: int) -> int | None:
        must(state + step != self.forbidden, Property.FORWARD, "counted to", state + step)
        return None if state + step > self.most else state + step

    def calm(self, state: int) -> int:
        return CALM + state

    def settle(self, state: int) -> int | None:
        must(state - CALM != self.restless, Property.SKIP_IS_RIGHT, "rests at", state - CALM)
        return state + CALM if self.is_endless else None


def test_a_search_without_a_violation_is_complete() -> None:
    found = explore(Counter(10))

    assert (found.states, found.events, found.is_complete, found.broken) == (11, 19, True, None)
    assert str(found) == "holds"


def test_a_violation_has_the_shortest_history() -> None:
    found = explore(Counter(10, forbidden=5))

    assert found.broken is Property.FORWARD
    assert len(found.history) == 3
    assert found.lines()[-1] == "  3. add 2"
    assert str(found) == "2 FORWARD: counted to 5 [3 events]"


def test_a_wrong_rest_is_found_after_the_events_that_lead_there() -> None:
    found = explore(Counter(10, restless=2))

    assert found.broken is Property.SKIP_IS_RIGHT
    assert found.history == (("add", 2), ("nothing more goes wrong",))


def test_a_run_to_rest_without_an_end_is_a_violation() -> None:
    found = explore(Counter(1, is_endless=True))

    assert found.broken is Property.ENDS


def test_a_search_that_is_cut_short_says_so() -> None:
    found = explore(Counter(1000), limit=10)

    assert (found.is_complete, found.broken) == (False, None)
    assert str(found) == "holds as far as it was searched"


def test_what_was_found_reaches_another_process() -> None:
    found = explore(Counter(10, forbidden=5))

    assert str(pickle.loads(pickle.dumps(found))) == str(found)
