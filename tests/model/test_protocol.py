"""The refresh protocol keeps its promises in every order of events, and needs each of its rules.

`make check` searches small scenarios, `make test-slow` more of them, and `make test-deep` all, as
`python -m tests.model` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.depth import DEPTH
from tests.model.mutations import MUTATIONS, SPARE, Mutation, searched
from tests.model.properties import Property
from tests.model.protocol import RefreshProtocol
from tests.model.rules import EVENTS, Rules, Scenario
from tests.model.scenarios import SCENARIOS
from tests.model.search import explore
from tests.model.states import STATE_MUTATIONS

RULES = frozenset(rule.name for rule in fields(Rules))
# Those with a few thousand states, one of each kind.
SMALL = ("changes", "split", "last release, changes")
MEDIUM = (
    "rollback",
    "unanswered twice",
    "foreign, zombie",
    "whole, foreign",
    "numbers, unanswered",
    "continuous, changes",
    "compaction, foreign",
    "split, compaction",
    "last release, unanswered",
)
# These take seconds.
LARGE_MUTATIONS = (
    "history_decides",
    "recomputation_spares_runs",
    "close_after_any_lost_claim",
    "close_looks_for_later",
    "skip_closes_what_it_saw",
    "epoch_is_written",
)


def name_of(case: Scenario | Mutation) -> str:
    return case.name if isinstance(case, Scenario) else "+".join(case.without)


def _named(names: Iterable[str]) -> list[Scenario]:
    return [scenario for scenario in SCENARIOS if scenario.name in names]


def check_holds(scenario: Scenario, rules: Rules | None = None) -> None:
    found = explore(RefreshProtocol(scenario, rules))

    assert found.violation is None, "\n".join([str(found.violation), *found.lines()])
    assert found.is_complete


@pytest.mark.parametrize("scenario", _named(SMALL), ids=name_of)
def test_the_protocol_holds_in_small_scenarios(scenario: Scenario) -> None:
    check_holds(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS if DEPTH > 1 else _named(MEDIUM), ids=name_of)
def test_the_protocol_holds(scenario: Scenario) -> None:
    check_holds(scenario)


@pytest.mark.parametrize(
    "mutation", [each for each in MUTATIONS if not set(each.without) & set(LARGE_MUTATIONS)], ids=name_of
)
def test_a_property_breaks_without_a_rule(mutation: Mutation) -> None:
    assert searched(mutation).broken is mutation.broken


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation", [each for each in MUTATIONS if set(each.without) & set(LARGE_MUTATIONS)], ids=name_of
)
def test_a_property_breaks_without_a_rule_after_a_long_history(mutation: Mutation) -> None:
    assert searched(mutation).broken is mutation.broken


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS if DEPTH > 1 else MUTATIONS[::3], ids=name_of)
def test_all_rules_hold_where_one_was_missed(mutation: Mutation) -> None:
    check_holds(mutation.scenario)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS if DEPTH > 1 else _named(SMALL), ids=name_of)
@pytest.mark.parametrize("rule", SPARE)
def test_nothing_breaks_without_a_spare_rule(rule: str, scenario: Scenario) -> None:
    check_holds(scenario, replace(Rules(), **{rule: False}))


def test_each_rule_is_needed_or_known_to_be_spare() -> None:
    needed = {each.without[0] for each in MUTATIONS if len(each.without) == 1}

    assert needed | set(SPARE) == RULES
    assert needed & set(SPARE) == set()


def test_each_property_breaks_without_some_rule() -> None:
    assert {each.broken for each in (*MUTATIONS, *STATE_MUTATIONS)} == set(Property)


def test_scenarios_have_names_of_their_own_and_each_event() -> None:
    names = [scenario.name for scenario in SCENARIOS]

    assert len(set(names)) == len(names)
    assert set(SMALL) | set(MEDIUM) <= set(names)
    assert [event for event in EVENTS if not any(getattr(each, event) for each in SCENARIOS)] == []


def test_the_page_of_the_protocol_says_what_breaks_without_each_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design" / "refresh-protocol.md").read_text(encoding="utf-8")

    for mutation in MUTATIONS:
        rules = " and ".join(f"`{rule}`" for rule in mutation.without)
        assert f"| {rules} | {mutation.broken.value} |" in page
    assert ", ".join(f"`{rule}`" for rule in SPARE) in " ".join(page.split())
