"""The stage plan of a query: which aggregates are kept as states, and what is computed over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt_core.incremental.stages.blocks import Blocks, Kind, Place
from mt_core.incremental.stages.words import shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An aggregate of which the groups are kept as a state.

    `name` identifies what the aggregate computes, of which sources: 16 hexadecimal digits, equal for equal
    aggregates of any query. `places` are all places of the aggregate in the query, which share one state; it
    is computed at the first one. `readings` are the readings below the first place. The others read the same
    sources. `keys` is the number of columns that a state has groups by, which are its first: the grouping
    expressions or, if there are none, the arguments of DISTINCT functions. `words` describes keys and
    functions to users. `blocks` are the rows that it aggregates, as a block over readings of tables and
    computed readings.
    """

    name: str
    places: tuple[Place, ...]
    readings: frozenset[int]
    keys: int
    words: str
    blocks: Blocks

    @property
    def described(self) -> str:
        """Its words, with those of the computed readings below it from top to bottom."""
        computed = (self.blocks.computed[number] for number in sorted(self.blocks.computed, reverse=True))
        words = [each.words for each in computed if each.kind is not Kind.UNION]
        return f"{self.words} over {shortened(words)}" if words else self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """How a query is computed from states.

    `stages` have different names, at least one. `rest` are the readings that no stage contains: the
    operators above the stages read them. `row_keys` are the positions of the columns of the result that have
    the grouping keys of the only stage, in the order of its keys. They are None unless each row of the
    result depends on one group of this stage alone.
    """

    stages: tuple[Stage, ...]
    rest: frozenset[int] = frozenset()
    row_keys: tuple[int, ...] | None = None

    def touched(self, changed: frozenset[int]) -> tuple[Stage, ...]:
        """Return the stages that contain one of the *changed* readings."""
        return tuple(each for each in self.stages if each.readings & changed)

    def fixed(self, changed: frozenset[int]) -> dict[int, str]:
        """Return the *changed* readings below operators that are computed whole, with words for these."""
        below = {number: each for stage in self.stages for number, each in stage.blocks.fixed().items()}
        return {number: below[number].words for number in sorted(changed & below.keys())}

    def described(self, changed: frozenset[int], relations: Sequence[str]) -> str:
        """Return which states change with the *changed* readings, and what the rest reads, for users.

        *relations* are the names of the readings.
        """
        touched = [each.words for each in self.touched(changed)]
        if len(self.stages) == 1:
            states = f"a state of {self.stages[0].described}" if touched else "the state does not change"
        else:
            states = f"{len(touched)} of {len(self.stages)} states"
            states += f": {shortened(touched, '; ')}" if touched else ""
        names = list(dict.fromkeys(relations[number] for number in sorted(self.rest)))
        return f"{states}; the rest reads {shortened(names)}" if names else states
