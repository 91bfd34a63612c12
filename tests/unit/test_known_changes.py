"""What was found of versions of a table is found again for the same versions, columns and JVM,
while it is one of the last.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mt_core.spark.readings.version_cache import VersionCache

ORDERS, CUSTOMERS = ("orders-uuid", 0), ("customers-uuid", 0)


def spark() -> Any:
    """Return a session of a JVM of its own."""
    return SimpleNamespace(_jvm=object())


def test_what_was_kept_is_found_by_table_columns_and_snapshots() -> None:
    session, known = spark(), VersionCache[str](4)
    known.store("rows", session, ORDERS, "1", "2")

    assert known.of(session, ORDERS, "1", "2") == "rows"
    others = [
        (CUSTOMERS, "1", "2"),
        ((ORDERS[0], 1), "1", "2"),
        (ORDERS, "2", "1"),
        (ORDERS, "1", "3"),
        (ORDERS, "1"),
    ]
    assert [known.of(session, *other) for other in others] == [None] * 5


def test_what_was_kept_in_a_jvm_that_has_ended_is_not_found_in_the_next() -> None:
    known = VersionCache[str](4)
    known.store("rows", spark(), ORDERS, "1", "2")

    assert known.of(spark(), ORDERS, "1", "2") is None


def test_what_nobody_asked_for_the_longest_goes_first() -> None:
    session, known = spark(), VersionCache[str](2)
    known.store("first", session, ORDERS, "1")
    known.store("second", session, ORDERS, "2")
    known.of(session, ORDERS, "1")

    known.store("third", session, ORDERS, "3")

    assert [known.of(session, ORDERS, snapshot) for snapshot in "123"] == ["first", None, "third"]


def test_large_facts_push_out_others_but_never_the_newest() -> None:
    session, known = spark(), VersionCache[str](10, len)
    known.store("0123456", session, ORDERS, "1")
    known.store("789", session, ORDERS, "2")
    assert known.of(session, ORDERS, "1") == "0123456"

    known.store("a", session, ORDERS, "3")
    assert [known.of(session, ORDERS, snapshot) for snapshot in "123"] == ["0123456", None, "a"]

    known.store("more than ten characters", session, ORDERS, "4")
    assert [known.of(session, ORDERS, snapshot) for snapshot in "134"] == [
        None,
        None,
        "more than ten characters",
    ]
