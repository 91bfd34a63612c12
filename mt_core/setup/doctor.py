"""`freshtable doctor`: runs all checks of an installation concurrently, and formats their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from mt_core.model.finding import Finding, Level
from mt_core.setup.checks import (
    authentication,
    clock,
    databases,
    gateway,
    home,
    jars,
    java,
    port,
    scheduler,
    settings,
    warehouse,
)
from mt_core.setup.machine import Machine
from mt_core.setup.outcomes import outcomes

LIMIT_S = 20.0
_WIDTH = 13

Check = Callable[[Machine], Sequence[Finding]]
CHECKS: Mapping[str, Check] = {
    "settings": settings.check,
    "java": java.check,
    "jars": jars.check,
    "spark ports": authentication.check,
    "port": port.check,
    "home": home.check,
    "gateway": gateway.check,
    "scheduler": scheduler.check,
    "registry": databases.check_registry,
    "catalog": databases.check_catalog,
    "object store": warehouse.check,
    "clock": clock.check,
}


def examine(
    machine: Machine, checks: Mapping[str, Check] = CHECKS, limit_s: float = LIMIT_S
) -> list[Finding]:
    """Return the findings of all *checks*, in order.

    A check that fails or exceeds *limit_s* is reported as a problem.
    """
    results = outcomes({name: partial(each, machine) for name, each in checks.items()}, limit_s)
    return [finding for name, outcome in results.items() for finding in _findings(name, outcome)]


def _findings(name: str, outcome: Sequence[Finding] | Exception) -> Sequence[Finding]:
    match outcome:
        case TimeoutError():
            way_out = f"make sure that the services for {name} answer, and run freshtable doctor again"
            return [Finding.problem(name, f"the check did not finish: {outcome}", way_out)]
        case Exception():
            text = f"the check failed: {type(outcome).__name__}: {outcome}"
            return [Finding.problem(name, text, "fix the cause it names, or report it")]
        case _:
            return outcome


def is_well(findings: Iterable[Finding]) -> bool:
    """Return whether no finding is a problem."""
    return all(finding.level is not Level.PROBLEM for finding in findings)


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the lines of the findings. A remedy is on a line of its own."""
    for finding in findings:
        yield f"{finding.level:<8}{finding.subject:<{_WIDTH}}{finding.text}"
        if finding.way_out:
            yield f"{'':<{8 + _WIDTH}}-> {finding.way_out}"
