"""EXPLAIN PLAN: a compiled plan as text, and whether its statements still have the same operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mt_core.base.secrets import statement_text
from mt_core.plans.compiled import CompiledPlan, short_upstream
from mt_core.plans.operator_tree import tree_lines
from mt_core.plans.operators import Operator

_LONGEST = 100_000


def explained_plan(plan: CompiledPlan, problems: Sequence[str]) -> str:
    """Return the text of a plan: contents, operator trees, warnings, and *problems* with executing it."""
    return "\n".join([
        "== Compiled Plan ==",
        f"Spark: {plan.spark_version}",
        f"Mode: {plan.mode}",
        f"Current database: {'.'.join((plan.catalog, *plan.namespace))}",
        *(f"Statement {number}: {shown_statement(text)}" for number, text in enumerate(plan.statements, 1)),
        *(f"Temporary: {shown_statement(text)}" for text in plan.temporary),
        "",
        "== Operators ==",
        *_tree(plan),
        "",
        "== Check ==",
        *(problems or ["The statements still have these operators: the plan can be executed."]),
        *(f"Warning: {warning}" for warning in short_upstream(plan)),
    ])  # fmt: skip


def shown_statement(text: str) -> str:
    """Return a statement of a plan on one line, with secrets masked."""
    return " ".join(statement_text(text, _LONGEST).split())


def _tree(plan: CompiledPlan) -> Iterator[str]:
    """Yield the operator trees of all statements; each line begins with a node id."""
    operators: dict[int, Operator] = {}
    for node in plan.nodes:
        operators[node.id] = Operator(
            type=node.type,
            description=node.description,
            inputs=tuple(operators[each] for each in node.inputs),
            changes=node.changes,
            states=node.states,
        )
    # Keyed by identity, because two operators may be equal.
    numbers = {id(operator): number for number, operator in operators.items()}
    read = {source for node in plan.nodes for source in node.inputs}
    for node in plan.nodes:
        if node.id not in read:
            yield from tree_lines(operators[node.id], lambda operator: f"[{numbers[id(operator)]}] ")
