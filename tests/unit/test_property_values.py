from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from mt_core.errors import RequestInvalid
from mt_core.sessions.property_values import check_properties, check_property, session_zone


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("execution.timeout", "soon", "a duration such as 30 min"),
        ("execution.runtime-mode", "AUTOMATIC", "batch or streaming"),
        ("table.dml-sync", "yes", "true or false"),
        ("table.local-time-zone", "Mars/Base", "an IANA name such as Europe/Berlin, or an offset such as GMT+08:00"),
        ("table.local-time-zone", "GMT+19", "an IANA name"),
        ("table.local-time-zone", "", "an IANA name"),
        ("materialized-table.refresh-mode.freshness-threshold", "-1 s", "a duration"),
        ("materialized-table.default-freshness.full", "500 ms", "at least 1 s"),
    ],
)
def test_a_value_that_cannot_be_right_is_refused_with_what_is_expected(key: str, value: str, expected: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        check_property(key, value)

    assert str(refusal.value).startswith(f"{key}: '{value}' (the session) cannot be used; expected ")
    assert expected in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.timeout", "10 s"),
        ("execution.timeout", ""),
        ("execution.runtime-mode", "STREAMING"),
        ("table.dml-sync", "true"),
        ("table.local-time-zone", "Europe/Berlin"),
        ("table.local-time-zone", "GMT-03:00"),
        # What only the gateway understands, and what nobody does, comes along with the configuration of clients.
        ("sql-gateway.endpoint.rest.port", "8083-8090"),
        ("table.exec.mini-batch.size", "many"),
        ("any", "thing"),
    ],
)
def test_a_right_value_and_any_value_of_another_key_is_accepted(key: str, value: str) -> None:
    check_properties({key: value})


@pytest.mark.parametrize(
    ("name", "hours"), [("Asia/Kolkata", 5.5), ("+05:30", 5.5), ("UTC-3", -3), ("GMT+0800", 8), ("Z", 0)]
)
def test_a_session_zone_is_a_name_or_an_offset(name: str, hours: float) -> None:
    assert datetime(2026, 1, 1, tzinfo=session_zone(name)).utcoffset() == timedelta(hours=hours)
