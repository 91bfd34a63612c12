"""Compiled plans: INSERT statements with their operators and states (FLIP-190, FLIP-292)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mt_core.plans.durations import ttl_text
from mt_core.plans.operators import ADDS, Operator, OperatorState, RowKind
from mt_core.plans.policies import TtlPolicy

Policies = tuple[tuple[TtlPolicy, ...], ...]
"""The TTL policies of each stateful operator of a statement, in order, one per state."""
# Spark numbers expressions from 0 in each process, so these ids must not affect the fingerprint.
_EXPRESSION_ID = re.compile(r"#[0-9]+L?\b")


class PlanMode(StrEnum):
    """How the statements of a plan are executed."""

    STREAMING = "streaming"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The operators that the engine plans: the root operator of each statement, and the Spark version."""

    spark_version: str
    operators: tuple[Operator, ...]

    @property
    def nodes(self) -> tuple[PlanNode, ...]:
        """The operators of all statements as nodes, numbered from 1, inputs first."""
        return nodes_of(self.operators)

    @property
    def policies(self) -> tuple[Policies, ...]:
        """The TTL policies of the operators' states, one item per statement."""
        return tuple(
            tuple(tuple(state.policy for state in each.states) for each in operator.all() if each.states)
            for operator in self.operators
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """An operator of a plan; `inputs` are node ids, and `output_type` is a ROW type of its columns."""

    id: int
    type: str
    description: str
    inputs: tuple[int, ...] = ()
    output_type: str = "ROW<>"
    changes: frozenset[RowKind] = ADDS
    states: tuple[OperatorState, ...] = ()

    @property
    def name(self) -> str:
        """The name of the node as text for messages."""
        return f"node {self.id} ({self.type})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPlan:
    """The input of EXECUTE PLAN: the original statements and their operators.

    `catalog` and `namespace` resolve names in the statements. `temporary` are the statements that create the
    temporary tables, views and functions of the session that compiled the plan. `fingerprint` is that of the
    compiled topology. Each node follows its inputs.
    """

    spark_version: str
    mode: PlanMode
    statements: tuple[str, ...]
    catalog: str
    namespace: tuple[str, ...]
    nodes: tuple[PlanNode, ...]
    fingerprint: str
    temporary: tuple[str, ...] = field(default=(), repr=False)

    @property
    def edges(self) -> Iterator[tuple[PlanNode, PlanNode]]:
        """Pairs of a node and each of its inputs, the input first."""
        by_id = self.by_id
        for node in self.nodes:
            for source in node.inputs:
                yield by_id[source], node

    @property
    def by_id(self) -> Mapping[int, PlanNode]:
        return {node.id: node for node in self.nodes}


def nodes_of(operators: Sequence[Operator]) -> tuple[PlanNode, ...]:
    """Return the operators of all statements as nodes, numbered from 1, inputs first."""
    nodes: list[PlanNode] = []
    for operator in operators:
        _add(nodes, operator)
    return tuple(nodes)


def _add(nodes: list[PlanNode], operator: Operator) -> int:
    inputs = tuple(_add(nodes, each) for each in operator.inputs)
    columns = ", ".join(f"`{name.replace('`', '``')}` {type_}" for name, type_ in operator.output)
    node = PlanNode(
        id=len(nodes) + 1,
        type=operator.type,
        description=_EXPRESSION_ID.sub("", operator.description),
        inputs=inputs,
        output_type=f"ROW<{columns}>",
        changes=operator.changes,
        states=operator.states,
    )
    nodes.append(node)
    return node.id


def fingerprint_of(nodes: Sequence[PlanNode]) -> str:
    """Return a digest that identifies a topology, regardless of TTL policies."""
    facts = [
        [
            node.id,
            node.type,
            node.description,
            node.inputs,
            node.output_type,
            sorted(kind.code for kind in node.changes),
            [[state.index, state.name] for state in node.states],
        ]
        for node in nodes
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def short_upstream(plan: CompiledPlan) -> Iterator[str]:
    """Yield a warning for each operator whose state outlives that of an upstream operator.

    Once a key has expired upstream, it counts as new there, so the downstream operator counts it twice.
    """
    for node in plan.nodes:
        for before in _stateful_before(plan, node) if node.states else ():
            shortest = min(before.states, key=lambda state: state.ttl)
            longest = max(node.states, key=lambda state: state.ttl)
            if shortest.ttl < longest.ttl:
                yield (
                    f"{before.name} retains {shortest.name} for {ttl_text(shortest.ttl)}, "
                    f"less than {node.name} downstream retains {longest.name} ({ttl_text(longest.ttl)}): "
                    "a key that expires in the first reaches the second as new"
                )


def _stateful_before(plan: CompiledPlan, node: PlanNode) -> Iterator[PlanNode]:
    by_id, ahead = plan.by_id, list(reversed(node.inputs))
    while ahead:
        before = by_id[ahead.pop()]
        if before.states:
            yield before
        else:
            ahead.extend(reversed(before.inputs))
