"""EXPLAIN PLAN: a compiled plan in words, and whether its statement gives the same operators now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mt_core.plans.compiled import CompiledPlan, PlanNode, short_upstream
from mt_core.plans.durations import ttl_text
from mt_core.plans.operators import ADDS


def explained_plan(plan: CompiledPlan, problems: Sequence[str]) -> str:
    """Return what a plan has in it, how its operators hang together, its warnings, and the *problems* of running it now."""
    return "\n".join([
        "== Compiled Plan ==",
        f"Spark: {plan.spark_version}",
        f"Mode: {plan.mode}",
        f"Current database: {'.'.join((plan.catalog, *plan.namespace))}",
        *(f"Statement {number}: {' '.join(text.split())}" for number, text in enumerate(plan.statements, 1)),
        *(f"Temporary: {' '.join(text.split())}" for text in plan.temporary),
        "",
        "== Operators ==",
        *_tree(plan),
        "",
        "== Check ==",
        *(problems or ["The statements give the same operators now: the plan can be executed."]),
        *(f"Warning: {warning}" for warning in short_upstream(plan)),
    ])  # fmt: skip


def _tree(plan: CompiledPlan) -> Iterator[str]:
    read = {source for node in plan.nodes for source in node.inputs}
    by_id = plan.by_id
    # With what is left to show below it.
    ahead = [(node, 0) for node in reversed(plan.nodes) if node.id not in read]
    while ahead:
        node, depth = ahead.pop()
        yield f"{'   ' * (depth - 1)}{'+- ' if depth else ''}{_line(node)}"
        ahead.extend((by_id[each], depth + 1) for each in reversed(node.inputs))


def _line(node: PlanNode) -> str:
    changes = ",".join(kind.value for kind in sorted(node.changes, key=lambda kind: kind.code))
    states = ", ".join(f"{state.name} {ttl_text(state.ttl)}" for state in node.states)
    return " ".join([
        f"[{node.id}] {node.type}: {node.description}",
        *([f"changes=[{changes}]"] if node.changes != ADDS else []),
        *([f"state=[{states}]"] if states else []),
    ])  # fmt: skip
