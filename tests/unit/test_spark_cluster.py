from __future__ import annotations

from collections.abc import Iterator

import pytest

from mt_core.spark.driver.cluster import ClusterState, ClusterWatch, is_cluster

IDLE, BUSY = (
    ClusterState(executors=0, expects_executors=True),
    ClusterState(executors=2, expects_executors=True),
)
ASLEEP = ClusterState(executors=0, expects_executors=False)


def watch_of(states: list[ClusterState | None], lost_after_s: float = 3.0) -> ClusterWatch:
    looks: Iterator[ClusterState | None] = iter(states)
    return ClusterWatch(lambda: next(looks), lost_after_s=lost_after_s)


def looks(watch: ClusterWatch, count: int) -> list[tuple[bool, bool]]:
    """Return whether the cluster took work, and whether it is lost, at each of *count* looks."""
    return [(watch.poll(), watch.lost) for _ in range(count)]


def test_a_cluster_without_an_executor_is_lost_after_a_while() -> None:
    watch = watch_of([BUSY, IDLE, IDLE, IDLE])

    assert looks(watch, 4) == [(True, False), (False, False), (False, False), (False, True)]
    assert watch.idle_s == 3.0


def test_an_executor_that_comes_back_in_time_begins_the_count_anew() -> None:
    watch = watch_of([IDLE, IDLE, BUSY, IDLE, IDLE])

    assert looks(watch, 5)[-1] == (False, False)


def test_a_cluster_that_gives_executors_only_for_work_may_have_none() -> None:
    watch = watch_of([ASLEEP] * 5)

    assert looks(watch, 5) == [(True, False)] * 5


def test_a_spark_that_does_not_answer_is_no_lost_cluster() -> None:
    watch = watch_of([IDLE, IDLE, None, None, None])

    assert looks(watch, 5)[-1] == (False, False)


def test_a_cluster_is_never_lost_with_a_limit_of_zero() -> None:
    watch = watch_of([IDLE] * 9, lost_after_s=0)

    assert not any(lost for _, lost in looks(watch, 9))


@pytest.mark.parametrize(
    ("master", "cluster"), [("local[*]", False), ("spark://h:7077", True), ("yarn", True)]
)
def test_a_local_spark_is_no_cluster(master: str, cluster: bool) -> None:
    assert is_cluster(master) is cluster
