from __future__ import annotations

import pytest

from mt_core.maintenance.cost import Sizes, dearer_than_recomputing
from mt_core.maintenance.strategy import Strategy, Way

MB = 1_000_000


def verdict(
    way: Way, *, changed: int, source: int, table: int = MB, rows: int = 10, table_rows: int = 1000
) -> str | None:
    sizes = Sizes(
        changed_bytes=changed, changed_rows=rows, source_bytes=source, table_bytes=table, table_rows=table_rows
    )
    return dearer_than_recomputing(Strategy(way=way, reason=""), sizes)


@pytest.mark.parametrize("way", [Way.APPEND, Way.MERGE, Way.KEYS])
def test_a_small_change_of_large_sources_is_applied(way: Way) -> None:
    assert verdict(way, changed=MB, source=1000 * MB) is None


def test_half_of_the_sources_appended_is_recomputed() -> None:
    assert verdict(Way.APPEND, changed=60 * MB, source=100 * MB) == "60% of the sources changed"


def test_a_table_as_large_as_its_sources_is_not_rewritten_for_a_merge() -> None:
    assert (
        verdict(Way.MERGE, changed=MB, source=100 * MB, table=90 * MB)
        == "the table is not much smaller than its sources"
    )


def test_many_keys_are_recomputed() -> None:
    assert verdict(Way.KEYS, changed=MB, source=100 * MB, rows=900) == "up to 900 of 1000 keys changed"
    assert verdict(Way.KEYS, changed=40 * MB, source=100 * MB) == "40% of the sources changed"


def test_nothing_costs_nothing() -> None:
    assert verdict(Way.NOTHING, changed=100 * MB, source=100 * MB) is None
