"""The stage plan of a query: which aggregates are kept as states, and what is computed over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mt_core.incremental.stages.blocks import Blocks, Kind, Place
from mt_core.incremental.stages.words import shortened

_ANEW = "computed anew if a scalar subquery returns another value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An aggregate of which the groups are kept as a state.

    `name` identifies what the aggregate computes, of which sources: 16 hexadecimal digits, equal for equal
    aggregates of any query. `places` are all places of the aggregate in the query, which share one state; it
    is computed at the first one. `readings` are the readings below the first place. The others read the same
    sources. `keys` is the number of columns that a state has groups by, which are its first: the grouping
    expressions or, if there are none, the arguments of DISTINCT functions. `words` describes keys and
    functions to users. `blocks` are the rows that it aggregates, as a block over readings of tables and
    computed readings. `values` are the trees of the scalar subqueries below it. While they return the same
    values, the state changes with its readings; otherwise it is computed anew.
    """

    name: str
    places: tuple[Place, ...]
    readings: frozenset[int]
    keys: int
    words: str
    blocks: Blocks
    values: frozenset[int] = frozenset()

    @property
    def described(self) -> str:
        """Its words, with those of the computed readings below it from top to bottom."""
        return over(self.words, self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The value of a scalar subquery, which is kept as a state of one row, and its `tree`.

    `name` identifies what the subquery computes, of which sources. The value is computed over the states of
    `stages`, given by name, over other `values`, given by tree, and over whole readings, its `rest`.
    `readings` are all that the subquery reads, but for what these other values read. The value
    `is_reproducible` if it is the same whenever it is computed over the same rows.
    """

    tree: int
    name: str
    stages: frozenset[str] = frozenset()
    rest: frozenset[int] = frozenset()
    values: frozenset[int] = frozenset()
    readings: frozenset[int] = frozenset()
    is_reproducible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """How a query is computed from states.

    `stages` have different names. `rest` are the readings that no stage contains: the operators above the
    stages read them. `row_keys` are the positions of the columns of the result that have the grouping keys of
    the first stage, in the order of its keys. They are None unless each row of the result depends on one
    group of this stage alone, and on the values below it. `values` are those of the scalar subqueries below
    the stages, and `inner` are the names of stages that only these read.

    If only scalar subqueries have stages, `rows` are the rows of the query as a block, in which their values
    are constants. There is no rest then, and `values` are those in the rows and below the stages. While they
    stay the same, the rows change as those of a block; otherwise all rows are computed.
    """

    stages: tuple[Stage, ...]
    rest: frozenset[int] = frozenset()
    row_keys: tuple[int, ...] | None = None
    values: tuple[Value, ...] = ()
    inner: frozenset[str] = frozenset()
    rows: Blocks | None = None

    @property
    def blocks(self) -> list[Blocks]:
        """The blocks through which changed rows pass: those below the stages, and the rows."""
        return [*(each.blocks for each in self.stages), *([] if self.rows is None else [self.rows])]

    @property
    def above(self) -> frozenset[int]:
        """The readings that are read whole to compute all rows from the states and values."""
        return self.rest if self.rows is None else self.rows.tables()

    @property
    def names(self) -> frozenset[str]:
        """The names of all that is kept: the states of the stages, and the values below these."""
        return frozenset([*(each.name for each in self.stages), *(each.name for each in self.values)])

    def in_order(self) -> Iterator[Stage | Value]:
        """Yield the stages and the values, each after those from which it is computed."""
        waiting: list[Stage | Value] = [*self.values, *self.stages]
        while waiting:
            of_stages = {each.name for each in waiting if isinstance(each, Stage)}
            of_values = {each.tree for each in waiting if isinstance(each, Value)}
            ready = [
                each
                for each in waiting
                if not each.values & of_values and (isinstance(each, Stage) or not each.stages & of_stages)
            ]
            assert ready, "a scalar subquery does not read itself"
            yield from ready
            waiting = [each for each in waiting if each not in ready]

    def needed(self, changed: frozenset[int]) -> frozenset[str]:
        """Return the names of what has to be kept if the *changed* readings change.

        Values in the rows that do not change are computed if they are not kept.
        """
        if self.rows is None or self.moved(changed):
            return self.names
        return frozenset() if all(each.is_reproducible for each in self.values) else self.names

    def moved(self, changed: frozenset[int]) -> tuple[Value, ...]:
        """Return the values that may change with the *changed* readings."""
        moved = dict[int, Value]()
        readings = {each.name: each.readings for each in self.stages}
        values = {each.name: each.values for each in self.stages}
        while True:
            more = [
                each
                for each in self.values
                if each.tree not in moved
                and (
                    each.rest & changed
                    or each.values & moved.keys()
                    or any(readings[name] & changed or values[name] & moved.keys() for name in each.stages)
                )
            ]
            if not more:
                return tuple(each for each in self.values if each.tree in moved)
            moved |= {each.tree: each for each in more}

    def read_whole(self, changed: frozenset[int]) -> frozenset[int]:
        """Return the readings that are read whole, above the stages, if the *changed* readings change."""
        return self.rest.union(*(each.rest for each in self.moved(changed)))

    def described(self, changed: frozenset[int], relations: Sequence[str]) -> str:
        """Return which states change with the *changed* readings, and what the rest reads, for users.

        *relations* are the names of the readings.
        """
        names = list(dict.fromkeys(relations[number] for number in sorted(self.read_whole(changed))))
        parts = [self._rows_described(changed), self._states_described(changed)]
        parts.append(f"the rest reads {shortened(names)}" if names else "")
        return "; ".join(filter(None, parts))

    def _rows_described(self, changed: frozenset[int]) -> str:
        if self.rows is None:
            return ""
        return over("rows", self.rows) + (f", {_ANEW}" if self.moved(changed) else "")

    def _states_described(self, changed: frozenset[int]) -> str:
        moved = {each.tree for each in self.moved(changed)}
        anew = [each for each in self.stages if each.values & moved]
        touched = [each.words for each in self.stages if each.readings & changed or each in anew]
        if self.rows is not None and not touched:
            return ""
        if len(self.stages) == 1:
            states = f"a state of {self.stages[0].described}" if touched else "the state does not change"
            states += f", {_ANEW}" if anew else ""
        else:
            states = f"{len(touched)} of {len(self.stages)} states"
            states += f": {shortened(touched, '; ')}" if touched else ""
            states += f"; {_ANEW}: {shortened([each.words for each in anew], '; ')}" if anew else ""
        return states


def over(words: str, blocks: Blocks) -> str:
    """Return *words*, with those of the computed readings below from top to bottom."""
    computed = (blocks.computed[number] for number in sorted(blocks.computed, reverse=True))
    below = [each.words for each in computed if each.kind is not Kind.UNION]
    return f"{words} over {shortened(below)}" if below else words
