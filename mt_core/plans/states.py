"""States of the operators that a plan has: how long EXECUTE PLAN keeps each, and what the plan says that is so no longer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mt_core.plans.compiled import CompiledPlan, PlanNode, Topology, Ttls, fingerprint_of
from mt_core.plans.differences import topology_differences
from mt_core.plans.errors import PlanInvalid

_MOST_SHOWN = 5


def check_topology(plan: CompiledPlan, now: Sequence[PlanNode]) -> None:
    """Raise PlanInvalid, saying what differs, unless the operators are *now* those of *plan*."""
    found = [str(each) for each in topology_differences(plan.nodes, now)]
    more = [f"and {len(found) - _MOST_SHOWN} more differences"] if len(found) > _MOST_SHOWN else []
    shown = "; ".join([*found[:_MOST_SHOWN], *more])
    if fingerprint_of(plan.nodes) == fingerprint_of(now) != plan.fingerprint:
        raise PlanInvalid(
            "fingerprint",
            "is not that of the nodes, which are those of the statement: it was edited. Compile the statement again",
        )
    if fingerprint_of(now) != plan.fingerprint:
        raise PlanInvalid(
            "the statement",
            f"has other operators than when it was compiled, whose state they could not read: {shown or 'other states'}. "
            "Compile it again, and start it without the savepoint of the old ones",
        )
    if found:
        raise PlanInvalid("nodes", f"were edited, and only the ttl of a state may be: {shown}")
    for place, (planned, operator) in enumerate(zip(plan.nodes, now, strict=True)):
        for state in planned.states[len(operator.states) :]:
            raise PlanInvalid(f"nodes[{place}].state", f"has {state.name}, which {operator.name} does not keep")


def ttls_of(plan: CompiledPlan, now: Topology, default: timedelta) -> tuple[Ttls, ...]:
    """Return for each statement how long its operators keep their states, of those that have any, in order.

    A node without states takes the *default*, and what one with a single state says holds for all inputs. The operators *now*
    are those of *plan*.
    """
    nodes, found = iter(plan.nodes), list[Ttls]()
    for operator in now.operators:
        pairs = [(next(nodes), len(each.states)) for each in operator.all()]
        found.append(tuple(_ttls(node, count, default) for node, count in pairs if count))
    return tuple(found)


def _ttls(planned: PlanNode, count: int, default: timedelta) -> tuple[timedelta, ...]:
    ttls = [state.ttl for state in planned.states] or [default]
    return tuple(ttls) if len(ttls) == count else (ttls[0],) * count
