"""Kept states are those of main in every order of events, and need each of their rules."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tests.depth import DEPTH
from tests.model.states import (
    EVENTS,
    STATE_MUTATIONS,
    STATE_SCENARIOS,
    StateMutation,
    StateRules,
    StateScenario,
    searched,
)

SMALL = ("states", "tiny states, rollback")
# These take seconds.
LARGE = ("states, zombies", "states, rollback", "states, foreign")


def name_of(case: StateScenario | StateMutation) -> str:
    return case.name if isinstance(case, StateScenario) else case.without


def check_holds(scenario: StateScenario) -> None:
    found = searched(scenario)

    assert found.violation is None, "\n".join([str(found.violation), *found.lines()])
    assert found.is_complete


@pytest.mark.parametrize("scenario", [each for each in STATE_SCENARIOS if each.name in SMALL], ids=name_of)
def test_states_hold_in_small_scenarios(scenario: StateScenario) -> None:
    check_holds(scenario)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [each for each in STATE_SCENARIOS if DEPTH > 1 or each.name not in (*SMALL, *LARGE)],
    ids=name_of,
)
def test_states_hold(scenario: StateScenario) -> None:
    check_holds(scenario)


@pytest.mark.parametrize("mutation", STATE_MUTATIONS, ids=name_of)
def test_a_property_breaks_without_a_rule(mutation: StateMutation) -> None:
    assert searched(mutation.scenario, mutation.without).broken is mutation.broken


@pytest.mark.slow
@pytest.mark.parametrize("mutation", STATE_MUTATIONS, ids=name_of)
def test_all_rules_hold_where_one_was_missed(mutation: StateMutation) -> None:
    check_holds(mutation.scenario)


def test_each_rule_is_needed_and_each_event_happens() -> None:
    assert {each.without for each in STATE_MUTATIONS} == {rule.name for rule in fields(StateRules)}
    assert [event for event in EVENTS if not any(getattr(each, event) for each in STATE_SCENARIOS)] == []


def test_the_page_of_the_protocol_says_what_breaks_without_each_rule_of_states() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design" / "refresh-protocol.md").read_text(encoding="utf-8")

    for mutation in STATE_MUTATIONS:
        assert f"| `{mutation.without}` | {mutation.broken.value} |" in page
