"""Search the refresh protocol.

python -m tests.model                        all scenarios, then the protocol without each of its rules,
                                             and the same of kept states
python -m tests.model SCENARIO ...           these scenarios only
python -m tests.model --without RULE ...     all scenarios without these rules, with what breaks first
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from tests.model import states
from tests.model.mutations import MUTATIONS, searched
from tests.model.protocol import RefreshProtocol
from tests.model.rules import Rules, Scenario
from tests.model.scenarios import SCENARIOS
from tests.model.search import Found, explore


def main(arguments: Sequence[str]) -> int:
    """Search what the command line names. Return 1 if a property breaks, or does not break without a rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description="Search the refresh protocol.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="the scenarios (default: all)")
    parser.add_argument("--without", nargs="+", default=[], metavar="RULE", help="rules to switch off")
    options = parser.parse_args(arguments)
    names = options.scenarios or [scenario.name for scenario in SCENARIOS]
    chosen = [scenario for scenario in SCENARIOS if scenario.name in names]
    rules = replace(Rules(), **dict.fromkeys(options.without, False))
    with multiprocessing.Pool() as pool:
        code = _say_scenarios(chosen, pool.imap(partial(_found, rules), chosen))
        if not options.scenarios and not options.without:
            code |= _say_mutations(pool.imap(searched, MUTATIONS))
            code |= _say_states(pool.imap(states.searched, states.STATE_SCENARIOS))
            code |= _say_states_without_rules(pool.imap(_without_a_rule, states.STATE_MUTATIONS))
    return code


def _found(rules: Rules, scenario: Scenario) -> Found:
    return explore(RefreshProtocol(scenario, rules))


def _say_scenarios(scenarios: Sequence[Scenario], results: Iterable[Found]) -> int:
    code = states = 0
    for scenario, found in zip(scenarios, results, strict=True):
        _say(f"{scenario.name:26} {found.states:8} states {found.events:8} events  {found}", *found.lines())
        code, states = code | (found.violation is not None), states + found.states
    _say(f"{len(scenarios)} scenarios, {states} states")
    return code


def _without_a_rule(mutation: states.StateMutation) -> Found:
    return states.searched(mutation.scenario, mutation.without)


def _say_states(results: Iterable[Found]) -> int:
    code = 0
    for scenario, found in zip(states.STATE_SCENARIOS, results, strict=True):
        _say(f"{scenario.name:26} {found.states:8} states {found.events:8} events  {found}", *found.lines())
        code |= found.violation is not None
    return code


def _say_states_without_rules(results: Iterable[Found]) -> int:
    code = 0
    for mutation, found in zip(states.STATE_MUTATIONS, results, strict=True):
        _say(f"{mutation.scenario.name:60} {found}")
        code |= found.broken is not mutation.broken
    return code


def _say_mutations(results: Iterable[Found]) -> int:
    code = 0
    for mutation, found in zip(MUTATIONS, results, strict=True):
        _say(f"{mutation.scenario.name:60} {found}")
        code |= found.broken is not mutation.broken
    return code


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
