"""The stage plan of a query: which aggregates are kept as states, and what is computed over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt_core.incremental.stages.join_blocks import JoinBlock

_MOST_NAMED = 3

Place = str
"""A place of an operator in the trees of a query, as JSON.

It is `[tree, [position, ...]]`: tree 0 is the query, tree n its n-th scalar subquery; the positions of
children lead from the root of the tree to the operator.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An aggregate of which the groups are kept as a state.

    `name` identifies what the aggregate computes, of which sources: 16 hexadecimal digits, equal for equal
    aggregates of any query. `places` are all places of the aggregate in the query, which share one state; it
    is computed at the first one. `readings` are the readings below the first place. The others read the same
    sources. `keys` is the number of grouping keys, which a state has first, in the order of the
    grouping expressions. `words` describes keys and functions to users. `blocks` say what the changed rows of
    a reading are joined with; a reading that is in the terms of none is joined with whole readings.
    """

    name: str
    places: tuple[Place, ...]
    readings: frozenset[int]
    keys: int
    words: str
    blocks: tuple[JoinBlock, ...] = ()


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

    def described(self, changed: frozenset[int], relations: Sequence[str]) -> str:
        """Return which states change with the *changed* readings, and what the rest reads, for users.

        *relations* are the names of the readings.
        """
        touched = [each.words for each in self.touched(changed)]
        if len(self.stages) == 1:
            states = f"a state of {touched[0]}" if touched else "the state does not change"
        else:
            states = f"{len(touched)} of {len(self.stages)} states"
            states += f": {shortened(touched, '; ')}" if touched else ""
        names = list(dict.fromkeys(relations[number] for number in sorted(self.rest)))
        return f"{states}; the rest reads {shortened(names)}" if names else states


def shortened(words: Sequence[str], separator: str = ", ") -> str:
    """Return the first of *words*, and how many more there are."""
    named = separator.join(words[:_MOST_NAMED])
    return named if len(words) <= _MOST_NAMED else f"{named} and {len(words) - _MOST_NAMED} more"
