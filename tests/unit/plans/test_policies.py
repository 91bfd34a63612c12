"""TTL policies: when an entry expires, and how a hint writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.plans.durations import FOR_EVER
from mt_core.plans.policies import (
    StateAccess,
    TtlPolicy,
    TtlTimeCharacteristic,
    TtlUpdateEvent,
    hinted_policy,
    policy_text,
)

EVENT, PROCESSING = TtlTimeCharacteristic.EVENT_TIME, TtlTimeCharacteristic.PROCESSING_TIME
CREATE, READ, WRITE, READ_WRITE = TtlUpdateEvent
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("time", TtlTimeCharacteristic)
@pytest.mark.parametrize(
    ("update", "after_read", "after_write"), [(CREATE, 0, 0), (READ, 7, 0), (WRITE, 0, 7), (READ_WRITE, 7, 7)]
)
def test_an_access_modifies_an_entry_if_the_policy_names_it(
    update: TtlUpdateEvent, after_read: int, after_write: int, time: TtlTimeCharacteristic
) -> None:
    policy = TtlPolicy(HOUR, time, update)

    found = [policy.after(access, 0, 7) for access in (StateAccess.READ, StateAccess.WRITE)]

    assert found == [after_read, after_write]


@pytest.mark.parametrize("update", TtlUpdateEvent)
@pytest.mark.parametrize("access", StateAccess)
def test_a_late_access_does_not_move_an_entry_back(update: TtlUpdateEvent, access: StateAccess) -> None:
    assert TtlPolicy(HOUR, EVENT, update).after(access, 9, 7) == 9


def test_an_entry_expires_at_the_very_millisecond() -> None:
    policy = TtlPolicy(timedelta(milliseconds=16), PROCESSING)

    assert [policy.has_expired(15, now) for now in (16, 30, 31, 32)] == [False, False, True, True]
    assert policy.expires(15) == 31


def test_the_policy_of_a_program_is_on_create_and_in_seconds() -> None:
    assert TtlPolicy.of_seconds(5, EVENT) == TtlPolicy(timedelta(seconds=5), EVENT, CREATE)


@pytest.mark.parametrize(
    "ttl", [timedelta(0), timedelta(microseconds=1500), timedelta(seconds=-1), FOR_EVER * 2]
)
def test_a_ttl_that_no_state_can_have_is_refused(ttl: timedelta) -> None:
    with pytest.raises(ValueError, match="whole milliseconds, from 1 ms to 36500 days"):
        TtlPolicy(ttl, EVENT)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("1 h", TtlPolicy(HOUR, PROCESSING, WRITE)),
        ("0", TtlPolicy(FOR_EVER, PROCESSING, WRITE)),
        ("60min on create", TtlPolicy(HOUR, PROCESSING, CREATE)),
        ("1 h ON READ", TtlPolicy(HOUR, PROCESSING, READ)),
        ("1 h ON WRITE PROCESSING TIME", TtlPolicy(HOUR, PROCESSING, WRITE)),
        (" 1 h  ON READ  WRITE EVENT TIME ", TtlPolicy(HOUR, EVENT, READ_WRITE)),
        ("1 h EVENT TIME", TtlPolicy(HOUR, EVENT, WRITE)),
    ],
)
def test_a_hint_writes_a_policy(text: str, policy: TtlPolicy) -> None:
    assert hinted_policy(text) == policy


@pytest.mark.parametrize("time", TtlTimeCharacteristic)
@pytest.mark.parametrize("update", TtlUpdateEvent)
@pytest.mark.parametrize("ttl", [timedelta(milliseconds=1500), HOUR, FOR_EVER])
def test_a_policy_is_read_as_it_is_written(
    ttl: timedelta, update: TtlUpdateEvent, time: TtlTimeCharacteristic
) -> None:
    policy = TtlPolicy(ttl, time, update)

    assert hinted_policy(policy_text(policy)) == policy


def test_a_policy_is_written_without_what_operators_do_anyway() -> None:
    assert [
        policy_text(TtlPolicy(HOUR, *each))
        for each in ((PROCESSING, WRITE), (EVENT, WRITE), (PROCESSING, READ))
    ] == [
        "1 h",
        "1 h EVENT TIME",
        "1 h ON READ",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "1 parsec",
        "1 h ON",
        "1 h ON DELETE",
        "1 h ON WRITE READ",
        "1 h TIME",
        "ON READ",
        "1 h EVENT",
        "7 ns",
    ],
)
def test_what_is_no_policy_is_none(text: str) -> None:
    assert hinted_policy(text) is None
