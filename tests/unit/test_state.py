"""States of users' processors: each policy as a plain model of it, with timers
that remove what has expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from mt_core.spark.streams.state.processor import PolicyProcessor
from mt_core.state import TtlPolicy, TtlTimeCharacteristic, TtlUpdateEvent
from tests.depth import rounds
from tests.support.fake_state_handle import FakeKey, FakeStateHandle
from tests.support.state_commands import STATES, Command, StateCommands
from tests.support.state_model import Moment, StateModel

EVENT, PROCESSING = TtlTimeCharacteristic.EVENT_TIME, TtlTimeCharacteristic.PROCESSING_TIME
CREATE, READ, WRITE, READ_WRITE = TtlUpdateEvent
UPDATE, GET = ("value", "update", 1), ("value", "get")
POLICIES = st.builds(
    TtlPolicy,
    st.integers(1, 20).map(lambda ttl: timedelta(milliseconds=ttl)),
    st.sampled_from(TtlTimeCharacteristic),
    st.sampled_from(TtlUpdateEvent),
)
COMMANDS = st.one_of(
    st.tuples(st.just("value"), st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("list"), st.just("append"), st.integers(0, 9)),
    st.tuples(st.just("map"), st.just("update"), st.sampled_from("ab"), st.integers(0, 9)),
    st.tuples(st.just("map"), st.just("get"), st.sampled_from("ab")),
    st.sampled_from([("value", "get"), ("list", "get"), ("map", "items")]),
)
# How far the time of the batches and the watermark move, how the row stands to the watermark,
# and what it does.
STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(-5, 9), st.lists(COMMANDS, max_size=3)),
    max_size=30,
)


def same(policy: TtlPolicy) -> StateCommands:
    return StateCommands(dict.fromkeys(STATES, policy))


def of(ttl: int, time: TtlTimeCharacteristic, update: TtlUpdateEvent = CREATE) -> TtlPolicy:
    return TtlPolicy(timedelta(milliseconds=ttl), time, update)


def at(now: int) -> Moment:
    return Moment(processing=now, watermark=now, row=now)


@settings(max_examples=rounds(150, 300), deadline=None)
@given(
    policies=st.fixed_dictionaries(dict.fromkeys(STATES, POLICIES)),
    time=st.sampled_from(TtlTimeCharacteristic),
    steps=STEPS,
)
def test_states_are_as_a_plain_model_says_and_nothing_expired_stays(
    policies: dict[str, TtlPolicy],
    time: TtlTimeCharacteristic,
    steps: Sequence[tuple[int, int, int, list[Command]]],
) -> None:
    key, model = FakeKey(StateCommands(policies), time), StateModel(policies)
    processing = watermark = 0

    for later, further, ahead, commands in steps:
        processing, watermark = processing + later, watermark + further
        moment = Moment(processing=processing, watermark=watermark, row=watermark + ahead)

        seen = key.feed(moment, *commands)

        assert seen == ([model.run(commands, moment)] if commands else [])
        for state, policy in policies.items():
            if commands or policy.time is time:
                now = watermark if policy.time is EVENT else processing
                assert [entry for entry in key.stored(state) if policy.has_expired(entry[-2], now)] == []


@pytest.mark.parametrize("time", TtlTimeCharacteristic)
def test_the_timer_of_the_example_of_flip_24_moves_from_16_to_31(time: TtlTimeCharacteristic) -> None:
    key, timers = FakeKey(same(of(16, time, READ_WRITE)), time), []

    for now, commands in ((0, [UPDATE]), (2, [UPDATE]), (15, [GET]), (16, []), (30, []), (31, [])):
        key.feed(at(now), *commands)
        timers.append((now, key.handle.timers.copy(), len(key.stored("value"))))

    assert timers == [(0, {16}, 1), (2, {16}, 1), (15, {16}, 1), (16, {31}, 1), (30, {31}, 1), (31, set(), 0)]


@pytest.mark.parametrize(
    ("update", "after_read", "after_write"),
    [(CREATE, 10, 10), (READ, 15, 10), (WRITE, 10, 15), (READ_WRITE, 15, 15)],
)
@pytest.mark.parametrize("time", TtlTimeCharacteristic)
def test_each_policy_expires_when_it_says(
    time: TtlTimeCharacteristic, update: TtlUpdateEvent, after_read: int, after_write: int
) -> None:
    for command, expected in ((GET, after_read), (UPDATE, after_write)):
        key = FakeKey(same(of(10, time, update)), time)

        key.feed(at(0), UPDATE)
        key.feed(at(5), command)

        assert next(now for now in range(6, 20) if key.feed(at(now)) or not key.stored("value")) == expected


def test_a_late_event_does_not_move_an_entry_back_and_one_too_late_is_not_kept() -> None:
    key = FakeKey(same(of(10, EVENT, WRITE)), EVENT)

    key.feed(Moment(processing=0, watermark=0, row=20), ("value", "update", 1))
    key.feed(Moment(processing=0, watermark=12, row=13), ("value", "update", 2))
    key.feed(Moment(processing=0, watermark=12, row=2), ("list", "append", 3))

    assert (key.stored("value"), key.stored("list")) == ([(2, 20, True)], [])


def test_the_timer_of_the_states_runs_before_those_of_the_processor_at_one_instant() -> None:
    key = FakeKey(same(of(10, PROCESSING)), PROCESSING)

    key.feed(at(0), UPDATE, ("timer", "register", "first", 10), ("timer", "register", "b", 9))
    key.feed(at(0), ("timer", "register", "b", 10), ("timer", "register", "z", 12), ("timer", "delete", "z"))
    timers = key.handle.timers.copy()

    assert timers == {10}
    assert key.feed(at(10)) == [["b", False], ["first", False]]
    assert (key.handle.timers, key.handle.states["freshtable_timers"].stored) == (set(), {})


def test_a_state_of_the_other_time_is_hidden_and_removed_when_its_key_comes_again() -> None:
    key = FakeKey(same(of(10, EVENT)), PROCESSING)
    key.feed(Moment(processing=0, watermark=0, row=0), UPDATE)

    idle = key.feed(Moment(processing=99, watermark=10, row=10)), len(key.stored("value"))
    touched = key.feed(Moment(processing=99, watermark=10, row=10), ("list", "get")), len(key.stored("value"))

    assert (idle, touched, key.handle.timers) == (([], 1), ([[[]]], 0), set())


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (of(3, PROCESSING), {5: []}),
        (of(30, PROCESSING), {5: [1], 29: [1], 30: []}),
        (of(10, PROCESSING, READ), {5: [1], 14: [1], 23: [1], 33: []}),
        # From the first time that the key comes on: the instants of the one time mean nothing in the other.
        (of(10, EVENT), {5: [1], 14: [1], 15: []}),
    ],
)
def test_a_changed_policy_holds_for_the_entries_that_are_there(
    policy: TtlPolicy, expected: dict[int, list[int]]
) -> None:
    key = FakeKey(same(of(10, PROCESSING)), PROCESSING)
    key.feed(at(0), UPDATE)

    key.start(same(policy), PROCESSING)
    seen = {
        now: key.feed(Moment(processing=now, watermark=1000 + now, row=1000 + now), GET) for now in expected
    }

    assert seen == {now: [[value]] for now, value in expected.items()}


def test_a_timer_without_a_name_is_refused() -> None:
    key = FakeKey(same(of(10, PROCESSING)), PROCESSING)

    with pytest.raises(ValueError, match="a timer without a name"):
        key.feed(at(0), ("timer", "register", "", 5))


def test_a_state_in_event_time_needs_the_event_time_of_the_rows() -> None:
    processor = PolicyProcessor(same(of(10, EVENT)), EVENT, None)

    with pytest.raises(ValueError, match="name their column, event_time='…', in transform_with_state"):
        processor.init(cast(StatefulProcessorHandle, FakeStateHandle()))
