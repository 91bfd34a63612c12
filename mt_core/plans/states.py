"""States of the operators that a plan has: how long EXECUTE PLAN keeps each, and what the plan says
that is so no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mt_core.plans.compiled import CompiledPlan, PlanNode, Policies, Topology, fingerprint_of
from mt_core.plans.differences import topology_differences
from mt_core.plans.errors import PlanInvalid
from mt_core.plans.policies import TtlPolicy, hinted_policy, operator_policy

_MOST_SHOWN = 5


def check_topology(plan: CompiledPlan, now: Sequence[PlanNode]) -> None:
    """Raise PlanInvalid, saying what differs, unless the operators are *now* those of *plan*."""
    found = [str(each) for each in topology_differences(plan.nodes, now)]
    more = [f"and {len(found) - _MOST_SHOWN} more differences"] if len(found) > _MOST_SHOWN else []
    shown = "; ".join([*found[:_MOST_SHOWN], *more])
    if fingerprint_of(plan.nodes) == fingerprint_of(now) != plan.fingerprint:
        raise PlanInvalid(
            "fingerprint",
            "is not that of the nodes, which are those of the statement: it was edited. "
            "Compile the statement again",
        )
    if fingerprint_of(now) != plan.fingerprint:
        raise PlanInvalid(
            "the statement",
            "has other operators than when it was compiled, "
            f"whose state they could not read: {shown or 'other states'}. "
            "Compile it again, and start it without the savepoint of the old ones",
        )
    if found:
        raise PlanInvalid(
            "nodes", f"were edited, and only the ttl, update and time of a state may be: {shown}"
        )
    for place, (planned, operator) in enumerate(zip(plan.nodes, now, strict=True)):
        for state in planned.states[len(operator.states) :]:
            raise PlanInvalid(
                f"nodes[{place}].state", f"has {state.name}, which {operator.name} does not keep"
            )


def policies_of(plan: CompiledPlan, now: Topology, default: timedelta) -> tuple[Policies, ...]:
    """Return for each statement how long its operators keep their states, of those that have any, in order.

    A node without states takes the *default*, and what one with a single state says holds for all inputs.
    The operators *now* are those of *plan*.
    """
    nodes, found = iter(plan.nodes), list[Policies]()
    for operator in now.operators:
        pairs = [(next(nodes), len(each.states)) for each in operator.all()]
        found.append(tuple(_policies(node, count, default) for node, count in pairs if count))
    return tuple(found)


def check_policies(planned: Sequence[Sequence[Sequence[str]] | None], now: Topology) -> None:
    """Raise PlanInvalid unless the operators of each statement keep their states *now* as *planned*,
    which is None for any.
    """
    for texts, policies in zip(planned, now.policies, strict=True):
        if texts is not None and tuple(tuple(map(planned_policy, each)) for each in texts) != policies:
            raise PlanInvalid(
                "state", "has TTLs that the operators of the statement did not take; compile it again"
            )


def planned_policy(text: str) -> TtlPolicy:
    """Return the policy that a statement of a plan has as *text*. Raises PlanInvalid."""
    policy = hinted_policy(text)
    if policy is None:
        raise PlanInvalid("state", f"has a TTL '{text}' that cannot be read; compile the plan again")
    return policy


def _policies(planned: PlanNode, count: int, default: timedelta) -> tuple[TtlPolicy, ...]:
    policies = [state.policy for state in planned.states] or [operator_policy(default)]
    return tuple(policies) if len(policies) == count else (policies[0],) * count
