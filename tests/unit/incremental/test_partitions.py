"""Which partitions of a result the changed rows of its sources touch."""

from __future__ import annotations

from collections.abc import Mapping

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.shape import Lineage, Occurrence, QueryShape, Reach
from mt_core.incremental.strategy import Strategy, Way, choose_partitions

ROWS = SourceChange(kind=ChangeKind.ROWS)
GROUPED = Occurrence(reach=Reach.GROUPED, reason="an aggregate is above it")
NONE = Occurrence(reach=Reach.NONE, reason="Limit is above it")


def chosen(
    occurrences: Mapping[int, Occurrence],
    lineage: Lineage,
    keys: tuple[int, ...] = (),
    **changes: SourceChange,
) -> Strategy:
    """Return the choice for the column ds, the second of a result over o and c,
    of which those of *changes* changed.
    """
    shape = QueryShape(occurrences=occurrences, lineage=({}, lineage), keys=keys, merge="not on top")
    by_number = {("o", "c").index(name): change for name, change in changes.items()}
    return choose_partitions(shape, by_number, [1], columns=["n", "ds"], relations=["o", "c"])


def test_a_column_of_the_source_names_the_partitions_whatever_is_above_it() -> None:
    choice = chosen({0: NONE}, {0: "day"}, o=ROWS)

    assert (choice.way, choice.keys, choice.key_columns) == (Way.PARTITIONS, (1,), {0: ("day",)})
    assert choice.reason == "the changed rows name the partitions by ds"


def test_the_query_over_the_changed_rows_names_the_partitions_of_a_key() -> None:
    choice = chosen({0: GROUPED}, {}, (1,), o=ROWS)

    assert (choice.way, choice.key_columns) == (Way.PARTITIONS, {0: None})


def test_each_source_names_the_partitions_in_its_own_way() -> None:
    choice = chosen({0: GROUPED, 1: Occurrence()}, {0: "day"}, (1,), o=ROWS, c=ROWS)

    assert (choice.way, choice.key_columns) == (Way.PARTITIONS, {0: ("day",), 1: None})


def test_a_source_that_does_not_name_them_is_told_with_what_is_above_it() -> None:
    choice = chosen({0: GROUPED, 1: NONE}, {0: "day"}, (1,), o=ROWS, c=ROWS)

    assert (choice.way, choice.reason) == (
        Way.RECOMPUTE,
        "changed rows of c do not show the ds of the rows that they change (Limit is above it)",
    )


def test_a_value_of_groups_names_no_partition() -> None:
    choice = chosen({0: GROUPED}, {}, (0,), o=ROWS)

    assert choice.way is Way.RECOMPUTE


def test_a_source_that_did_not_change_is_not_asked() -> None:
    nothing = SourceChange(kind=ChangeKind.COMPACTION)

    assert chosen({0: GROUPED, 1: NONE}, {0: "day"}, o=ROWS, c=nothing).way is Way.PARTITIONS
    assert chosen({0: GROUPED, 1: NONE}, {0: "day"}, o=nothing, c=nothing).way is Way.NOTHING


def test_a_change_that_is_not_known_is_told_with_its_reason() -> None:
    lost = SourceChange(kind=ChangeKind.UNKNOWN, base_live=False, reason="snapshot 1 has expired")

    choice = chosen({0: GROUPED}, {0: "day"}, o=lost)

    assert (choice.way, choice.reason) == (
        Way.RECOMPUTE,
        "the changes of o are not known: snapshot 1 has expired",
    )
