"""A log has an error that repeats in full once, and then counts it."""

from __future__ import annotations

import logging

import pytest

from mt_core.model.partition import PartitionSpec
from mt_core.tables.repeated_errors import CAPACITY, RepeatedErrors
from tests.unit.tables.continuous_table import LiveTable

AGAIN = "the same error as before, {} times in a row"


def test_an_error_is_in_full_once_and_then_counted_until_it_changes() -> None:
    errors = RepeatedErrors()

    told = [
        errors.text("a", error)
        for error in ("task 7 of 9 failed", "task 8 of 9 failed", "no table", "task 1 of 9 failed")
    ]

    assert told == ["task 7 of 9 failed", AGAIN.format(2), "no table", "task 1 of 9 failed"]


def test_another_partition_is_another_error_and_another_task_is_not() -> None:
    errors = RepeatedErrors()
    raised = [
        "ds=2026-03-02 failed",
        "ds=2026-03-03 failed",
        "stage 12.0 (TID 7) failed",
        "stage 13.1 (TID 9) failed",
    ]

    told = [errors.text("a", error) for error in raised]

    assert told == [*raised[:3], AGAIN.format(2)]


def test_errors_of_others_and_a_success_between_two_do_not_count() -> None:
    errors = RepeatedErrors()

    first = [errors.text("a", "failed"), errors.text("b", "failed"), errors.text("a", "failed")]
    errors.forget("a")
    then = [errors.text("a", "failed"), errors.text("b", "failed")]

    assert first == ["failed", "failed", AGAIN.format(2)]
    assert then == ["failed", AGAIN.format(2)]


def test_only_so_many_subjects_are_remembered() -> None:
    errors = RepeatedErrors()

    for number in range(CAPACITY + 1):
        errors.text(str(number), "failed")

    assert (errors.text("0", "failed"), errors.text(str(CAPACITY), "failed")) == ("failed", AGAIN.format(2))


def test_a_table_whose_batches_fail_in_the_same_way_logs_the_reason_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = LiveTable()
    world.look()
    world.append(10)
    world.engine.poisoned = {PartitionSpec.of({"ds": "2026-03-02"})}

    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            world.look(after=1)

    told = [
        record.getMessage() for record in caplog.records if getattr(record, "action", "") == "batch_failed"
    ]
    assert len(told) == 4
    assert (
        told[0]
        == "refresh of lake.default.live failed: division by zero in ds=2026-03-02 (line 1, position 8)"
    )
    assert [line.partition("failed: ")[2] for line in told[1:]] == [
        AGAIN.format(count) for count in (2, 3, 4)
    ]
