"""What the last runs of a table took decides whether the next change is applied."""

from __future__ import annotations

import pytest

from mt_core.incremental.cost import (
    DOUBTED_AFTER,
    RETRIED_AFTER,
    Measured,
    Sizes,
    recently_failed,
    slower_than_recomputing,
)
from mt_core.incremental.stages.first_rows import Limit
from mt_core.incremental.strategy import Strategy, Way
from mt_core.model.storage import InVain

ALL = Measured(way=Way.RECOMPUTE, seconds=4.0, bytes_read=1000)
SLOW = Measured(way=Way.KEYS, seconds=12.0, bytes_read=100)
QUICK = Measured(way=Way.KEYS, seconds=0.5, bytes_read=100)
SLOWER = "the last change by keys took 12 s, a recomputation 4.0 s"


@pytest.mark.parametrize(
    ("runs", "changed_bytes", "reason"),
    [
        ([SLOW, ALL], 100, SLOWER),
        ([SLOW, QUICK, ALL], 51, SLOWER),
        ([ALL, SLOW, SLOW, QUICK], 51, SLOWER),
        ([QUICK, SLOW, ALL], 100, None),
        ([SLOW, ALL], 50, None),
        ([Measured(way=Way.KEYS, seconds=12.0, bytes_read=None), ALL], 1, SLOWER),
        ([Measured(way=Way.KEYS, seconds=4.0, bytes_read=100), ALL], 100, None),
        ([SLOW], 100, None),
        ([ALL], 100, None),
        ([Measured(way=Way.MERGE, seconds=12.0, bytes_read=100), ALL], 100, None),
        ([], 100, None),
        ([ALL] * (RETRIED_AFTER - 1) + [SLOW, SLOW], 100, SLOWER),
        ([ALL] * RETRIED_AFTER + [SLOW, SLOW], 100, None),
        ([ALL] * (RETRIED_AFTER - 1) + [SLOW, ALL, SLOW], 100, SLOWER),
        ([ALL] * DOUBTED_AFTER + [SLOW, QUICK], 100, None),
        ([ALL] * DOUBTED_AFTER + [SLOW], 100, None),
    ],
)
def test_a_change_that_took_longer_than_a_recomputation_is_repeated_if_smaller_or_the_first_or_long_ago(
    runs: list[Measured], changed_bytes: int, reason: str | None
) -> None:
    assert slower_than_recomputing(Way.KEYS, changed_bytes, runs) == reason


def test_a_commit_without_rows_is_never_dearer() -> None:
    nothing = Measured(way=Way.NOTHING, seconds=12.0, bytes_read=0)

    assert slower_than_recomputing(Way.NOTHING, 0, [nothing, ALL]) is None


KEYS, VALUES = InVain(what="keys", size=100), InVain(what="values", size=100)

LIMIT = Limit(rows=3, order=((0, "ASC NULLS FIRST"),), total=True, place="[0,[0,0,0]]", columns=(0,))


def sizes(changed_bytes: int) -> Sizes:
    return Sizes(
        changed_bytes=changed_bytes, changed_rows=1, source_bytes=1000, table_bytes=1000, table_rows=1000
    )


@pytest.mark.parametrize(
    ("strategy", "changed_bytes", "last", "reason"),
    [
        (Strategy(way=Way.KEYS, reason=""), 51, KEYS, "a change of this size touched too many keys"),
        (Strategy(way=Way.KEYS, reason=""), 50, KEYS, None),
        (
            Strategy(way=Way.KEYS, reason=""),
            100,
            InVain(what="keys", size=100, recomputed=RETRIED_AFTER),
            None,
        ),
        (Strategy(way=Way.KEYS, reason=""), 100, VALUES, None),
        (Strategy(way=Way.KEYS, reason=""), 100, None, None),
        (Strategy(way=Way.APPEND, reason=""), 100, KEYS, None),
        (
            Strategy(way=Way.STAGES, reason=""),
            100,
            InVain(what="rows", size=100),
            "a change of this size needed too many rows of the sources",
        ),
        (Strategy(way=Way.APPEND, reason=""), 100, VALUES, None),
        (
            Strategy(way=Way.STAGES, reason="", limit=LIMIT),
            100,
            InVain(what="limit", size=100),
            "a change of this size removed rows within the LIMIT",
        ),
        (
            Strategy(way=Way.STAGES, reason="", limit=LIMIT, only_added=True),
            100,
            InVain(what="limit", size=100),
            None,
        ),
        (
            Strategy(way=Way.APPEND, reason="", values=frozenset({1})),
            100,
            VALUES,
            "a scalar subquery gave another value after a change of this size",
        ),
    ],
)
def test_what_was_read_in_vain_is_not_read_again_until_a_change_is_smaller_or_it_is_long_ago(
    strategy: Strategy, changed_bytes: int, last: InVain | None, reason: str | None
) -> None:
    assert recently_failed(strategy, sizes(changed_bytes), last) == reason
