"""Exhaustive breadth-first search of a model, with a run to rest from every state that it reaches.

A model is a system whose states are immutable and hashable. The search follows every event in every state, so
the first violation that it finds has the shortest history. From each state it also follows the run without
further faults until nothing is left to do, because "everything ends" is a property of such a run, and not of
a state. States are stored as 64-bit hashes: among a million states, the probability that two have the same
hash is below 10^-7.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tests.model.properties import Property, Violation

State = TypeVar("State", bound=Hashable)
Label = tuple[object, ...]
# A run to rest has fewer steps, unless it has no end.
MOST_STEPS = 200
TO_REST: Label = ("nothing more goes wrong",)


class Model(Protocol[State]):
    """A system to search. Each method may raise Violation."""

    def initial(self) -> State: ...

    def events(self, state: State) -> Iterable[tuple[Label, Callable[[], State | None]]]:
        """Return everything that may happen next: what it is, and a function that returns the state after it.

        The function returns None if the event turns out to be impossible.
        """

    def calm(self, state: State) -> State:
        """Return the state in which every process has ended, and from which nothing more goes wrong."""

    def settle(self, state: State) -> State | None:
        """Return the state after the next step of the run to rest, or None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search: the violation, if there is one, and the shortest history that leads to it."""

    states: int
    events: int
    is_complete: bool = True
    violation: Violation | None = None
    history: tuple[Label, ...] = ()

    @property
    def broken(self) -> Property | None:
        return None if self.violation is None else self.violation.broken

    def __str__(self) -> str:
        if self.violation is not None:
            return f"{self.violation} [{len(self.history)} events]"
        return "holds" if self.is_complete else "holds as far as it was searched"

    def lines(self) -> list[str]:
        """Return the history as numbered lines."""
        return [
            f"{number:3}. {' '.join(str(part) for part in label)}"
            for number, label in enumerate(self.history, 1)
        ]


def explore(model: Model[State], limit: int = 5_000_000) -> Found:
    """Search every order of events; stop at the first violation, or after *limit* states."""
    # States are trees of tuples, so the garbage collector would only look at all of them again and again.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _Search(model).found(limit)
    finally:
        if collects:
            gc.enable()


class _Search(Generic[State]):
    def __init__(self, model: Model[State]) -> None:
        self._model = model
        # How each state was reached first: the number of the state before it, and the event.
        self._parents, self._labels = array("l"), list[Label]()
        self._seen, self._rested, self._events = set[int](), set[int](), 0

    def found(self, limit: int) -> Found:
        frontier = [(0, self._model.initial())]
        self._add(0, (), frontier[0][1])
        while frontier:
            ahead = list[tuple[int, State]]()
            for number, state in frontier:
                if (violated := self._expanded(number, state, ahead)) is not None:
                    return violated
            if len(self._parents) > limit:
                return Found(states=len(self._parents), events=self._events, is_complete=False)
            frontier = ahead
        return Found(states=len(self._parents), events=self._events)

    def _add(self, parent: int, label: Label, state: State) -> bool:
        """Return whether *state* is new."""
        known = len(self._seen)
        self._seen.add(hash(state))
        if len(self._seen) == known:
            return False
        self._parents.append(parent)
        self._labels.append(label)
        return True

    def _expanded(self, number: int, state: State, ahead: list[tuple[int, State]]) -> Found | None:
        """Add the states that follow *state* to *ahead*; return the first violation."""
        for label, step in self._model.events(state):
            try:
                after = step()
                if after is None:
                    continue
                self._events += 1
                if not self._add(number, label, after):
                    continue
                ahead.append((len(self._parents) - 1, after))
            except Violation as violation:
                return self._violated(violation, number, label)
            try:
                self._settle(after)
            except Violation as violation:
                return self._violated(violation, len(self._parents) - 1, TO_REST)
        return None

    def _settle(self, state: State) -> None:
        """Follow the run to rest, up to a state from which it was followed before."""
        following: State | None = self._model.calm(state)
        path = list[int]()
        while following is not None and (known := hash(following)) not in self._rested:
            path.append(known)
            if len(path) > MOST_STEPS:
                raise Violation(Property.ENDS, "the run to rest has no end")
            following = self._model.settle(following)
        self._rested.update(path)

    def _violated(self, violation: Violation, number: int, last: Label) -> Found:
        labels = [last]
        while number:
            labels.append(self._labels[number])
            number = self._parents[number]
        return Found(
            states=len(self._parents),
            events=self._events,
            violation=violation,
            history=tuple(reversed(labels)),
        )
