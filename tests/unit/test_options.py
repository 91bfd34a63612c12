"""Options: which texts are durations and sizes, and which key a misspelt one resembles."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.base.options import (
    FLINK_DURATION,
    FLINK_SIZE,
    SPARK_DURATION,
    SPARK_SIZE,
    Form,
    bytes_of,
    duration_of,
    one_of,
    suggestion,
)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0", timedelta()),
        ("30 min", timedelta(minutes=30)),
        ("1H", timedelta(hours=1)),
        ("500ms", timedelta(milliseconds=500)),
        ("36500 d", timedelta(days=36_500)),
        ("36501 d", None),
        ("30", None),
        ("-1 s", None),
        ("1 fortnight", None),
    ],
)
def test_a_duration_is_a_number_and_a_unit_of_at_most_a_century(
    text: str, duration: timedelta | None
) -> None:
    assert duration_of(text) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [("17", 17), ("1 b", 1), ("64 mb", 64 * 2**20), ("2G", 2**31), ("1 pb", None), ("-1", None)],
)
def test_a_size_is_a_number_of_bytes_with_or_without_a_unit(text: str, size: int | None) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    ("form", "accepted", "refused"),
    [
        (SPARK_SIZE, "-1", "64 mebibytes"),
        (SPARK_DURATION, " 300s ", "5 millis"),
        (FLINK_SIZE, "64 mebibytes", "-1"),
        (FLINK_DURATION, "5 µs", "5 weeks"),
        (one_of("fixed_delay", "none"), "NONE", "fixed-delay"),
    ],
)
def test_a_form_accepts_what_its_system_accepts(form: Form, accepted: str, refused: str) -> None:
    assert form.accepts(accepted)
    assert not form.accepts(refused)


def test_the_most_similar_key_is_suggested_and_none_that_differs_too_much() -> None:
    keys = ("table.exec.state.ttl", "table.exec.sort.default-limit")

    assert suggestion("table.exec.state.tll", keys, likeness=0.9) == "did you mean table.exec.state.ttl?"
    assert suggestion("parallelism", keys, likeness=0.9) == ""
