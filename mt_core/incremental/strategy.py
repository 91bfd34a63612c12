"""Strategy: how a refresh applies the changes of its sources.

The choice depends on two facts: how the result depends on each relation, which the blocks of the query
(`Blocks`) and its shape (`Reach`) say, and the kind of each source's change. The ways are tried in this
order: do nothing, add and delete the rows that changed rows give one by one, merge aggregates, replace all
rows of the changed keys, add and delete any rows that change, recompute. A way is chosen only if its result
equals a recomputation. If none qualifies, the strategy is RECOMPUTE, with a reason for the user. Whether the
way is also cheaper is decided afterwards (`cost`). Some preconditions can be checked only while a run reads
rows; these raise `NotApplied`.

A query either has stages or is maintained by these ways, whatever changes (`stages_of`): what a run keeps for
the next one must not depend on the change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.first_rows import FirstRows
from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.incremental.merging import Merge, can_subtract
from mt_core.incremental.shape import Occurrence, QueryShape, Reach
from mt_core.incremental.stages.blocks import Blocks
from mt_core.incremental.stages.dividing import divided_by, dividing
from mt_core.incremental.stages.first_rows import Limit
from mt_core.incremental.stages.key_source import Division
from mt_core.incremental.stages.stage_plan import StagePlan, over

UNREAD = "no row or column that the query reads changed"
"""The reason for doing nothing after a change that does not concern the query."""
STATES_FAILED = "states"
"""What a run did in vain that could not keep the states of a query, as `NotApplied.what`."""


class Way(StrEnum):
    """How a refresh brings the table up to the new source versions."""

    NOTHING = "nothing"
    APPEND = "append"
    MERGE = "merge"
    KEYS = "keys"
    STAGES = "stages"
    PARTITIONS = "partitions"
    RECOMPUTE = "recompute"

    @classmethod
    def _missing_(cls, value: object) -> Way | None:
        """Return the way that does today what a word in a ledger or snapshot of an earlier release says."""
        return cls.STAGES if value == "signed" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way with its reason, worded for users.

    `keys` are the positions of the columns that identify the rows to replace (KEYS, PARTITIONS, and STAGES:
    those of the only stage, none if all rows are replaced, or all columns if rows are replaced by value).
    `stages` are those whose states change, and `rows` are the rows of the result as a block, of which the
    change is computed (APPEND, STAGES).
    `key_columns` maps each changed relation to its own columns with these values, or to None if the query
    over the changed rows must compute them. `merge` contains the aggregate of each column (MERGE). `first` is
    the LIMIT of a query without aggregates. `most_keys` limits the number of keys to replace (KEYS; None for
    no limit), because the metadata says little about it. `values` are the changed relations that only scalar
    subqueries read; the strategy is valid only while these subqueries return the same values.

    `division` is a key of the `rows`, if they have one. The rows of changed keys are replaced if the rows are
    written `by_key`, and otherwise if a change by value needs too many rows. With a `limit`, `rows` are those
    of the query without it, and `only_added` says that none of them is removed.
    """

    way: Way
    reason: str
    keys: tuple[int, ...] = ()
    key_columns: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)
    merge: Merge = ()
    most_keys: int | None = None
    values: frozenset[int] = frozenset()
    first: FirstRows | None = None
    stages: StagePlan | None = None
    rows: Blocks | None = None
    division: Division | None = None
    by_key: bool = False
    limit: Limit | None = None
    only_added: bool = False

    def __str__(self) -> str:
        return f"{self.way}: {self.reason}"


class NotApplied(Exception):
    """The changed rows show that a change cannot be applied. Nothing was written.

    `what` identifies the cause.
    """

    what = ""


class TooManyKeys(NotApplied):
    """More keys changed than a run may replace."""

    what = "keys"


class ValueChanged(NotApplied):
    """A scalar subquery returns another value than before, so any row may have changed."""

    what = "values"


class ResultUnchanged(Exception):
    """The changed rows show that the query returns the same rows as before. Nothing was written."""


class LimitReached(NotApplied):
    """A row within a LIMIT was removed, so a row behind it, which is not known, comes up."""

    what = "limit"


class Ties(NotApplied):
    """Rows on the two sides of a LIMIT are tied, so the order does not determine which of them to keep."""

    what = "ties"


class TooManyRows(NotApplied):
    """A change needs more rows of the sources than a run may read for it."""

    what = "rows"


class CountsDiffer(NotApplied):
    """A row would be removed more often than it exists: it was computed with other values before."""

    what = "counts"


def check_keys(strategy: Strategy, number: int) -> None:
    """Raise TooManyKeys if *number* of keys exceeds the limit of *strategy*."""
    if strategy.most_keys is not None and number > strategy.most_keys:
        raise TooManyKeys(f"{number:,} keys changed, more than the limit of {strategy.most_keys:,}")


def choose(
    shape: QueryShape,
    changes: Mapping[int, SourceChange],
    *,
    columns: Sequence[str],
    relations: Sequence[str],
) -> Strategy:
    """Return the cheapest exact way to apply *changes*, a map from relation numbers, by the shape of a query.

    *columns* and *relations* are names for the reason.
    """
    changed = {number: change for number, change in changes.items() if change.kind.changes_rows}
    if (recomputed := _from_nothing(changed, relations)) is not None:
        return recomputed
    values = frozenset(
        number for number, change in changed.items() if number in shape.values and change.base_live
    )
    others = {number: change for number, change in changed.items() if number not in values}
    choice = _nothing(others, changes) or _chosen(shape, others, columns, relations)
    if not values or choice.way is Way.RECOMPUTE:
        return choice
    reason = choice.reason if others else "only scalar subqueries read what changed"
    return replace(
        choice, reason=f"{reason}, as long as scalar subqueries return the same values", values=values
    )


def _chosen(
    shape: QueryShape, changed: Mapping[int, SourceChange], columns: Sequence[str], relations: Sequence[str]
) -> Strategy:
    unknown = _unknown(changed, relations)
    if unknown is not None:
        return unknown
    occurrences = {number: shape.occurrences.get(number, _UNREAD) for number in changed}
    appends = all(change.kind is ChangeKind.APPENDS for change in changed.values())
    if not isinstance(shape.merge, str) and all(each.reach is Reach.GROUPED for each in occurrences.values()):
        if appends:
            return Strategy(
                way=Way.MERGE, reason="only appends below one aggregate that combines", merge=shape.merge
            )
        # If several relations changed, a row added through one may cancel a row removed through another.
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


def stages_of(shape: QueryShape, others: Strategy) -> StagePlan | None:
    """Return the stages that maintain a query, or None if the other ways do.

    *others* is the strategy without stages if rows of all relations change at once. Stages keep states, and
    compute what is above them again. So they leave it to the other ways where these write only the rows that
    change, or where the rest of the query would read whole relations and keys divide the result. A strategy
    that depends on scalar subqueries does not count, since their values usually change with the rows.
    Rows that change one by one over the values of scalar subqueries are written as by the other ways.
    """
    plan = shape.stages
    if isinstance(plan, str):
        return None
    if plan.rows is not None and plan.rows.tables() <= plan.rows.linear():
        return plan
    match others.way:
        case Way.MERGE:
            return plan if others.values and plan.rows is None else None
        case Way.KEYS | Way.PARTITIONS if plan.above and not (others.values and plan.stages):
            return None
        case _:
            return plan


def choose_stages(
    plan: StagePlan,
    changes: Mapping[int, SourceChange],
    *,
    keys: Sequence[int],
    relations: Sequence[str],
) -> Strategy:
    """Return how to apply *changes* to the states of a query.

    *keys* are the positions of the columns by which the rows of changed groups can be replaced, or of all
    columns of rows that are changed one by one.
    """
    changed = {number: change for number, change in changes.items() if change.kind.changes_rows}
    settled = _from_nothing(changed, relations) or _nothing(changed, changes) or _unknown(changed, relations)
    if settled is not None:
        return settled
    return _refused(plan.blocks, changed, relations) or Strategy(
        way=Way.STAGES,
        reason=plan.described(frozenset(changed), relations),
        keys=tuple(keys),
        stages=plan,
        rows=plan.rows,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """What is known of the rows of a table whose query has the `columns`.

    `obstacle` is the reason why rows are not found by their values, or empty. The columns at the positions
    `usable` may identify rows. If `upserts`, rows are replaced by key where that is possible.
    """

    columns: Sequence[str]
    obstacle: str = ""
    usable: Collection[int] = ()
    upserts: bool = False


def choose_rows(
    rows: Blocks, changes: Mapping[int, SourceChange], *, stored: StoredRows, relations: Sequence[str]
) -> Strategy:
    """Return how to apply *changes* to the *rows* of a result, which a table has stored.

    Rows are added and deleted by value, or replaced by key if that is impossible: if a value is not
    reproducible, or cannot be compared. So are rows that are joined with such values where any were removed:
    they may be stored with other values, and a row that has the new ones by chance would be deleted instead.
    """
    changed = {number: change for number, change in changes.items() if change.kind.changes_rows}
    settled = _from_nothing(changed, relations) or _nothing(changed, changes) or _unknown(changed, relations)
    if settled is not None:
        return settled
    refused = _refused([rows], changed, relations)
    is_linear = changed.keys() <= rows.linear()
    if refused is None and is_linear and all(each.kind is ChangeKind.APPENDS for each in changed.values()):
        return Strategy(way=Way.APPEND, reason="only rows are added", rows=rows)
    division = dividing(rows, changed.keys(), stored.usable, relations)
    key = None if isinstance(division, str) else division
    obstacle = stored.obstacle if refused is None else refused.reason
    unstable = rows.with_unstable().keys()
    is_doubtful = any(
        number in unstable and each.kind is not ChangeKind.APPENDS for number, each in changed.items()
    )
    by_key = is_doubtful or (stored.upserts and not is_linear)
    if not obstacle and (key is None or not by_key):
        every = tuple(range(len(stored.columns)))
        reason = f"{over('rows', rows)} are added and deleted"
        return Strategy(way=Way.STAGES, reason=reason, keys=every, rows=rows, division=key)
    if key is None:
        hidden = f"; no column divides the result by changes of {division}" if division else ""
        return Strategy(way=Way.RECOMPUTE, reason=obstacle + hidden)
    return replaced_by_key(Strategy(way=Way.STAGES, reason="", rows=rows, division=key), stored.columns)


def choose_first_rows(
    rows: Blocks,
    limit: Limit,
    changes: Mapping[int, SourceChange],
    *,
    stored: StoredRows,
    relations: Sequence[str],
) -> Strategy:
    """Return how to apply *changes* to the first of the *rows* below a *limit*, which a table has stored.

    All columns have to be usable: the order of rows is that of the values in the table.
    """
    choice = choose_rows(rows, changes, stored=stored, relations=relations)
    if choice.way not in (Way.APPEND, Way.STAGES):
        return choice
    if choice.by_key or len(stored.usable) < len(stored.columns):
        return Strategy(way=Way.RECOMPUTE, reason="a LIMIT is above it")
    if limit.rows >= MOST_LOCAL:
        return Strategy(way=Way.RECOMPUTE, reason="the LIMIT has more rows than the driver holds")
    only_added = choice.way is Way.APPEND
    reason = f"{over('rows', rows)} are added {'' if only_added else 'and deleted '}below a LIMIT"
    return Strategy(way=Way.STAGES, reason=reason, rows=rows, limit=limit, only_added=only_added)


def replaced_by_key(choice: Strategy, columns: Sequence[str]) -> Strategy:
    """Return *choice*, whose rows have a division, if these are replaced by its key."""
    assert choice.rows is not None
    assert choice.division is not None
    keys = choice.division.positions
    reason = f"{over('rows', choice.rows)} are replaced by {_listed(columns, keys)}"
    return replace(choice, reason=reason, keys=keys, by_key=True)


def _refused(blocks: Iterable[Blocks], changed: Collection[int], relations: Sequence[str]) -> Strategy | None:
    """Return the recomputation if a change of one of the *changed* readings cannot be applied to *blocks*."""
    refused = {number: reason for each in blocks for number, reason in each.refused().items()}
    reasons = [f"{refused[number]} {relations[number]}" for number in sorted({*changed} & refused.keys())]
    return Strategy(way=Way.RECOMPUTE, reason="; ".join(dict.fromkeys(reasons))) if reasons else None


def choose_partitions(
    shape: QueryShape,
    changes: Mapping[int, SourceChange],
    partition: Sequence[int],
    *,
    columns: Sequence[str],
    relations: Sequence[str],
) -> Strategy:
    """Return how to find the partitions that *changes* affect.

    *partition* contains the positions of the partition columns. The way is RECOMPUTE, with a reason, if the
    changed rows of a relation do not determine their partitions.
    """
    changed = {number: change for number, change in changes.items() if change.kind.changes_rows}
    settled = _nothing(changed, changes) or _unknown(changed, relations)
    if settled is not None:
        return settled
    if isinstance(shape.rows, Blocks):
        return _partitions(shape.rows, changed.keys(), partition, columns, relations)
    key_columns: dict[int, tuple[str, ...] | None] = {}
    for number in changed:
        occurrence = shape.occurrences.get(number, _UNREAD)
        if all(number in shape.lineage[position] for position in partition):
            key_columns[number] = tuple(shape.lineage[position][number] for position in partition)
        elif occurrence.reach is not Reach.NONE and set(partition) <= set(shape.keys):
            key_columns[number] = None
        else:
            reason = (
                f"changed rows of {relations[number]} do not show the {_listed(columns, partition)} of the "
                "rows that they change"
            )
            because = f" ({occurrence.reason})" if occurrence.reason else ""
            return Strategy(way=Way.RECOMPUTE, reason=reason + because)
    return Strategy(
        way=Way.PARTITIONS,
        reason=f"the changed rows name the partitions by {_listed(columns, partition)}",
        keys=tuple(partition),
        key_columns=key_columns,
    )


def _partitions(
    rows: Blocks,
    changed: Collection[int],
    partition: Sequence[int],
    columns: Sequence[str],
    relations: Sequence[str],
) -> Strategy:
    division = divided_by(rows, partition, changed, relations)
    if isinstance(division, str):
        reason = f"changes of {division} do not show the {_listed(columns, partition)} of changed rows"
        return Strategy(way=Way.RECOMPUTE, reason=reason)
    return Strategy(
        way=Way.PARTITIONS,
        reason=f"the changed rows name the partitions by {_listed(columns, partition)}",
        keys=tuple(partition),
        rows=rows,
        division=division,
    )


def _from_nothing(changed: Mapping[int, SourceChange], relations: Sequence[str]) -> Strategy | None:
    """Return the strategy that recomputes the table if a relation had no rows before, or None."""
    for number, change in changed.items():
        if change.from_nothing:
            return Strategy(way=Way.RECOMPUTE, reason=f"{relations[number]} had no rows before")
    return None


def _nothing(changed: Mapping[int, SourceChange], changes: Mapping[int, SourceChange]) -> Strategy | None:
    """Return the strategy that does nothing if none of *changes* is left, or None."""
    if changed:
        return None
    unread = any(change.kind is ChangeKind.UNREAD for change in changes.values())
    return Strategy(way=Way.NOTHING, reason=UNREAD if unread else "no rows of any source changed")


def _unknown(changed: Mapping[int, SourceChange], relations: Sequence[str]) -> Strategy | None:
    """Return the strategy that recomputes the table if a change is not known, or None."""
    for number, change in changed.items():
        # If several relations changed, the query over one change reads the others at their old versions.
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
    """Return the strategy that replaces the rows of changed keys, or None if no column divides the result."""
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
            reason=f"the query over the changed rows returns the keys {_listed(columns, shape.keys)}",
            keys=shape.keys,
            key_columns=dict.fromkeys(occurrences),
        )
    return None


def _listed(columns: Sequence[str], positions: Sequence[int]) -> str:
    return ", ".join(columns[position] for position in positions)
