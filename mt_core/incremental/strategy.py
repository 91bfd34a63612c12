"""Strategy: what a refresh does, from the shape of its query and from what happened to each source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.first_rows import FirstRows
from mt_core.incremental.merging import Merge, can_subtract
from mt_core.incremental.shape import Occurrence, QueryShape, Reach


class Way(StrEnum):
    """How a refresh brings the table to its sources' versions."""

    NOTHING = "nothing"
    APPEND = "append"
    MERGE = "merge"
    SIGNED = "signed"
    KEYS = "keys"
    PARTITIONS = "partitions"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way with its reason, in words for users.

    `keys` are the positions of the columns whose values name what to replace (KEYS, PARTITIONS);
    `key_columns` has, for each changed relation by its number, the columns of it that hold them, or None
    where the query over the changed rows gives them. `merge` has the aggregate of each column (MERGE).
    `most_keys`: up to how many keys are replaced (KEYS; None: any number), since what is known before they
    are read says little of their number. `values`: the changed relations that only scalar subqueries read,
    each of which has to give the value that it gave. `first` is what is kept of the table's rows and of
    appended ones in place of aggregates (MERGE).
    """

    way: Way
    reason: str
    keys: tuple[int, ...] = ()
    key_columns: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)
    merge: Merge = ()
    most_keys: int | None = None
    values: frozenset[int] = frozenset()
    first: FirstRows | None = None

    def __str__(self) -> str:
        return f"{self.way}: {self.reason}"


class NotApplied(Exception):
    """A change is not applied, since of its rows `what` was read; nothing was written."""

    what = ""


class TooManyKeys(NotApplied):
    """More keys changed than a run shall replace."""

    what = "keys"


class ValueChanged(NotApplied):
    """A scalar subquery gives another value than before, and so any row may be another."""

    what = "values"


class Ties(NotApplied):
    """Rows beside a LIMIT are equal in its order, which does not say which of them comes first."""

    what = "ties"


def check_keys(strategy: Strategy, number: int) -> None:
    """Raise TooManyKeys if so many keys are more than *strategy* replaces."""
    if strategy.most_keys is not None and number > strategy.most_keys:
        raise TooManyKeys(
            f"{number:,} keys changed, more than the {strategy.most_keys:,} up to which that pays"
        )


def choose(
    shape: QueryShape,
    changes: Mapping[int, SourceChange],
    *,
    columns: Sequence[str],
    relations: Sequence[str],
) -> Strategy:
    """Return the cheapest exact way to apply *changes*, which are by relation.

    *columns* are the names of the result's columns, *relations* those of the relations, both by position.
    """
    changed = {number: change for number, change in changes.items() if change.kind.changes_rows}
    for number, change in changed.items():
        if change.from_nothing:
            return Strategy(way=Way.RECOMPUTE, reason=f"{relations[number]} had no rows before")
    values = frozenset(
        number for number, change in changed.items() if number in shape.values and change.base_live
    )
    others = {number: change for number, change in changed.items() if number not in values}
    choice = _chosen(shape, others, columns, relations)
    if not values or choice.way is Way.RECOMPUTE:
        return choice
    reason = choice.reason if others else "only scalar subqueries read what changed"
    return replace(
        choice, reason=f"{reason}, as long as scalar subqueries give the same values", values=values
    )


def _chosen(
    shape: QueryShape, changed: Mapping[int, SourceChange], columns: Sequence[str], relations: Sequence[str]
) -> Strategy:
    settled = _settled(changed, relations)
    if settled is not None:
        return settled
    occurrences = {number: shape.occurrences.get(number, _UNREAD) for number in changed}
    appends = all(change.kind is ChangeKind.APPENDS for change in changed.values())
    if all(each.reach is Reach.LINEAR for each in occurrences.values()):
        if appends:
            return Strategy(way=Way.APPEND, reason="only appends below projections, filters and joins")
        return Strategy(way=Way.SIGNED, reason="rows changed below projections, filters and joins")
    if not isinstance(shape.merge, str) and all(each.reach is Reach.GROUPED for each in occurrences.values()):
        if appends:
            return Strategy(
                way=Way.MERGE, reason="only appends below one aggregate that combines", merge=shape.merge
            )
        # Where several relations changed, a row of an added image may be one that a removed one
        # takes out again.
        if len(changed) == 1 and can_subtract(shape.merge):
            return Strategy(
                way=Way.MERGE, reason="rows changed below one aggregate of counts and sums", merge=shape.merge
            )
    if appends and shape.first is not None and occurrences.keys() <= shape.first.reads:
        return Strategy(way=Way.MERGE, reason="only appends below ORDER BY and LIMIT", first=shape.first)
    return _by_keys(shape, occurrences, columns) or Strategy(
        way=Way.RECOMPUTE,
        reason="no column divides the result by the changed rows: "
        + "; ".join(
            f"{relations[number]}: {each.reason or 'no key'}" for number, each in occurrences.items()
        ),
    )


def choose_partitions(
    shape: QueryShape,
    changes: Mapping[int, SourceChange],
    partition: Sequence[int],
    *,
    columns: Sequence[str],
    relations: Sequence[str],
) -> Strategy:
    """Return how the partitions are found that have other rows after *changes*:
    those of the columns at the positions *partition*.

    RECOMPUTE with the reason where the changed rows of a relation do not tell them.
    """
    changed = {number: change for number, change in changes.items() if change.kind.changes_rows}
    settled = _settled(changed, relations)
    if settled is not None:
        return settled
    key_columns: dict[int, tuple[str, ...] | None] = {}
    for number in changed:
        occurrence = shape.occurrences.get(number, _UNREAD)
        if all(number in shape.lineage[position] for position in partition):
            key_columns[number] = tuple(shape.lineage[position][number] for position in partition)
        elif occurrence.reach is not Reach.NONE and set(partition) <= set(shape.keys):
            key_columns[number] = None
        else:
            reason = (
                f"no changed row of {relations[number]} tells the {_listed(columns, partition)} of the "
                "rows that it changes"
            )
            because = f" ({occurrence.reason})" if occurrence.reason else ""
            return Strategy(way=Way.RECOMPUTE, reason=reason + because)
    return Strategy(
        way=Way.PARTITIONS,
        reason=f"the changed rows name the partitions by {_listed(columns, partition)}",
        keys=tuple(partition),
        key_columns=key_columns,
    )


def _settled(changed: Mapping[int, SourceChange], relations: Sequence[str]) -> Strategy | None:
    """Return the strategy that follows from what happened to the sources alone;
    None if the query's shape decides.
    """
    if not changed:
        return Strategy(way=Way.NOTHING, reason="no rows of any source changed")
    for number, change in changed.items():
        # Where several relations changed, one is read at its old version while the query runs over
        # the change of another.
        if change.kind is ChangeKind.UNKNOWN or (len(changed) > 1 and not change.base_live):
            reason = change.reason or "its old version has expired"
            return Strategy(
                way=Way.RECOMPUTE, reason=f"the changes of {relations[number]} are not known: {reason}"
            )
    return None


_UNREAD = Occurrence(reach=Reach.NONE, reason="the plan does not show where it is read")


def _by_keys(
    shape: QueryShape, occurrences: Mapping[int, Occurrence], columns: Sequence[str]
) -> Strategy | None:
    """Return the strategy that replaces the rows of the changed keys;
    None if no column divides the result.
    """
    direct = tuple(
        position
        for position, lineage in enumerate(shape.lineage)
        if all(number in lineage for number in occurrences)
    )
    if direct:
        return Strategy(
            way=Way.KEYS,
            reason=f"the changed rows name the keys {_listed(columns, direct)}",
            keys=direct,
            key_columns={
                number: tuple(shape.lineage[position][number] for position in direct)
                for number in occurrences
            },
        )
    if shape.keys and all(each.reach is not Reach.NONE for each in occurrences.values()):
        return Strategy(
            way=Way.KEYS,
            reason=f"the query over the changed rows gives the keys {_listed(columns, shape.keys)}",
            keys=shape.keys,
            key_columns=dict.fromkeys(occurrences),
        )
    return None


def _listed(columns: Sequence[str], positions: Sequence[int]) -> str:
    return ", ".join(columns[position] for position in positions)
