from __future__ import annotations

import pytest

from mt_core.incremental.cost import Sizes, reason_to_recompute
from mt_core.incremental.strategy import Strategy, Way

MB = 1_000_000


def verdict(
    way: Way, *, changed: int, source: int, table: int = MB, rows: int = 10, table_rows: int = 1000
) -> str | None:
    sizes = Sizes(
        changed_bytes=changed,
        changed_rows=rows,
        source_bytes=source,
        table_bytes=table,
        table_rows=table_rows,
    )
    return reason_to_recompute(Strategy(way=way, reason=""), sizes)


@pytest.mark.parametrize("way", [Way.APPEND, Way.MERGE, Way.STAGES, Way.KEYS, Way.PARTITIONS])
def test_a_small_change_of_large_sources_is_applied(way: Way) -> None:
    assert verdict(way, changed=MB, source=1000 * MB) is None


def test_half_of_the_sources_appended_is_recomputed() -> None:
    assert verdict(Way.APPEND, changed=60 * MB, source=100 * MB) == "60% of the sources changed"


@pytest.mark.parametrize("way", [Way.MERGE, Way.STAGES])
def test_a_table_as_large_as_its_sources_is_not_rewritten(way: Way) -> None:
    assert (
        verdict(way, changed=MB, source=100 * MB, table=90 * MB, table_rows=200_001)
        == "the table is not much smaller than its sources"
    )


def test_a_small_table_is_rewritten_unless_most_of_its_sources_changed() -> None:
    assert verdict(Way.STAGES, changed=75 * MB, source=100 * MB, table=90 * MB) is None
    assert verdict(Way.STAGES, changed=76 * MB, source=100 * MB) == "76% of the sources changed"


@pytest.mark.parametrize(
    ("table_rows", "changed", "in_place"),
    [(1_000_000, 10, True), (999_999, 10, False), (1_000_000, 11, False)],
)
def test_a_large_table_is_changed_in_place_by_a_small_change(
    table_rows: int, changed: int, in_place: bool
) -> None:
    sizes = Sizes(
        changed_bytes=changed * MB,
        changed_rows=1,
        source_bytes=100 * MB,
        table_bytes=90 * MB,
        table_rows=table_rows,
    )

    assert sizes.in_place is in_place
    assert (reason_to_recompute(Strategy(way=Way.MERGE, reason=""), sizes) is None) is in_place


@pytest.mark.parametrize(
    ("table_rows", "upsert", "most"), [(1_000_000, False, 100_000), (999_999, False, 0), (50, True, 5)]
)
def test_a_large_table_is_changed_in_place_if_few_rows_of_rewritten_files_changed(
    table_rows: int, upsert: bool, most: int
) -> None:
    sizes = Sizes(
        changed_bytes=100,
        changed_rows=0,
        source_bytes=100,
        table_bytes=90,
        table_rows=table_rows,
        upsert=upsert,
    )

    assert sizes.most_in_place == most


@pytest.mark.parametrize(("table_rows", "small"), [(200_000, True), (200_001, False)])
def test_one_task_rewrites_a_small_table(table_rows: int, small: bool) -> None:
    sizes = Sizes(changed_bytes=10, changed_rows=1, source_bytes=100, table_bytes=10, table_rows=table_rows)

    assert sizes.small_table is small


@pytest.mark.parametrize(("changed", "in_place"), [(10, True), (11, False)])
def test_a_table_of_any_size_is_changed_in_place_if_its_rows_are_replaced_by_key(
    changed: int, in_place: bool
) -> None:
    sizes = Sizes(
        changed_bytes=changed, changed_rows=1, source_bytes=100, table_bytes=90, table_rows=5, upsert=True
    )

    assert sizes.in_place is in_place


@pytest.mark.parametrize(("table_rows", "most"), [(10, 1000), (100_000, 20_000)])
def test_up_to_a_fifth_of_the_rows_and_a_few_in_any_case_are_replaced_by_keys(
    table_rows: int, most: int
) -> None:
    sizes = Sizes(changed_bytes=1, changed_rows=0, source_bytes=100, table_bytes=1, table_rows=table_rows)

    assert sizes.most_keys == most


def test_many_keys_are_recomputed() -> None:
    assert verdict(Way.KEYS, changed=MB, source=100 * MB, rows=900) == "up to 900 of 1000 keys changed"
    assert verdict(Way.KEYS, changed=40 * MB, source=100 * MB) == "40% of the sources changed"


def test_nothing_costs_nothing() -> None:
    assert verdict(Way.NOTHING, changed=100 * MB, source=100 * MB) is None


@pytest.mark.parametrize(
    ("joined", "reason"), [(75, None), (76, "the change would be joined with 76% of the sources")]
)
def test_states_are_used_unless_most_of_the_sources_would_be_read(joined: int, reason: str | None) -> None:
    sizes = Sizes(
        changed_bytes=50,
        changed_rows=5,
        source_bytes=100,
        table_bytes=25,
        table_rows=5,
        joined_bytes=joined,
    )

    assert reason_to_recompute(Strategy(way=Way.STAGES, reason=""), sizes) == reason


@pytest.mark.parametrize(
    ("keys", "rows", "reason"),
    [
        ((), 5_000_000, "the table is not much smaller than its sources"),
        ((0,), 200_001, "the table is not much smaller than its sources"),
        ((0,), 5_000_000, None),
    ],
)
def test_a_table_as_large_as_its_sources_is_not_rewritten_from_states(
    keys: tuple[int, ...], rows: int, reason: str | None
) -> None:
    sizes = Sizes(changed_bytes=1, changed_rows=5, source_bytes=100, table_bytes=90, table_rows=rows)

    assert reason_to_recompute(Strategy(way=Way.STAGES, reason="", keys=keys), sizes) == reason
