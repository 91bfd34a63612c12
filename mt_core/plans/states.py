"""The operator states of a plan: their TTLs, and checks that the plan still fits its statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mt_core.plans.compiled import CompiledPlan, PlanNode, Policies, Topology, fingerprint_of
from mt_core.plans.differences import topology_differences
from mt_core.plans.errors import PlanInvalid
from mt_core.plans.policies import TtlPolicy, hinted_policy, operator_policy

_MOST_SHOWN = 5


def check_topology(plan: CompiledPlan, now: Sequence[PlanNode]) -> None:
    """Raise PlanInvalid with the differences if the current operators *now* are not those of *plan*."""
    changes = [str(each) for each in topology_differences(plan.nodes, now)]
    more = [f"and {len(changes) - _MOST_SHOWN} more differences"] if len(changes) > _MOST_SHOWN else []
    shown = "; ".join([*changes[:_MOST_SHOWN], *more])
    if fingerprint_of(plan.nodes) == fingerprint_of(now) != plan.fingerprint:
        raise PlanInvalid(
            "fingerprint",
            "was edited: it does not match the nodes, which match the statement. Compile the statement again",
        )
    if fingerprint_of(now) != plan.fingerprint:
        raise PlanInvalid(
            "the statement",
            "has other operators than when it was compiled, "
            f"and they could not read the old state: {shown or 'other states'}. "
            "Compile it again, and start it without the old savepoint",
        )
    if changes:
        raise PlanInvalid(
            "nodes", f"were edited, but only the ttl, update and time of a state may be changed: {shown}"
        )
    for place, (planned, operator) in enumerate(zip(plan.nodes, now, strict=True)):
        for state in planned.states[len(operator.states) :]:
            raise PlanInvalid(
                f"nodes[{place}].state", f"has {state.name}, which {operator.name} does not have"
            )


def policies_of(plan: CompiledPlan, now: Topology, default: timedelta) -> tuple[Policies, ...]:
    """Return the TTL policies of the stateful operators of each statement, in order.

    A node without states gets the *default*, and a single state applies to all inputs. The operators *now*
    must be those of *plan*.
    """
    nodes, policies = iter(plan.nodes), list[Policies]()
    for operator in now.operators:
        pairs = [(next(nodes), len(each.states)) for each in operator.all()]
        policies.append(tuple(_policies(node, count, default) for node, count in pairs if count))
    return tuple(policies)


def check_policies(planned: Sequence[Sequence[Sequence[str]] | None], now: Topology) -> None:
    """Raise PlanInvalid unless the operators *now* use the *planned* policies.

    None for a statement accepts any policies.
    """
    for texts, policies in zip(planned, now.policies, strict=True):
        if texts is not None and tuple(tuple(map(planned_policy, each)) for each in texts) != policies:
            raise PlanInvalid(
                "state", "has TTLs that the operators of the statement did not accept; compile it again"
            )


def planned_policy(text: str) -> TtlPolicy:
    """Parse a policy in a statement of a plan; raise PlanInvalid if *text* is not one."""
    policy = hinted_policy(text)
    if policy is None:
        raise PlanInvalid("state", f"has a TTL '{text}' that cannot be read; compile the plan again")
    return policy


def _policies(planned: PlanNode, count: int, default: timedelta) -> tuple[TtlPolicy, ...]:
    policies = [state.policy for state in planned.states] or [operator_policy(default)]
    return tuple(policies) if len(policies) == count else (policies[0],) * count
