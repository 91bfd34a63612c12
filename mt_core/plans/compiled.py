"""Compiled plans: a streaming or batch INSERT, or a set of these, with its operators and what each keeps
(FLIP-190, FLIP-292).
"""

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
"""For each operator of a statement that keeps state, in order, the TTL policy of each of its states."""
# Spark numbers its columns in the order in which it meets them, in each process from 0 on.
_EXPRESSION_ID = re.compile(r"#[0-9]+L?\b")


class PlanMode(StrEnum):
    """How the statements of a plan run."""

    STREAMING = "streaming"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What an engine makes of statements: the last operator of each, above all others,
    and the release of Spark.
    """

    spark_version: str
    operators: tuple[Operator, ...]

    @property
    def nodes(self) -> tuple[PlanNode, ...]:
        """The operators of all statements as nodes with ids from 1 on, inputs first."""
        return nodes_of(self.operators)

    @property
    def policies(self) -> tuple[Policies, ...]:
        """For each statement how long its operators keep their states."""
        return tuple(
            tuple(tuple(state.policy for state in each.states) for each in operator.all() if each.states)
            for operator in self.operators
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """An operator of a plan; `inputs` are the ids of others.

    `output_type` is a ROW with the names and types of its columns.
    """

    id: int
    type: str
    description: str
    inputs: tuple[int, ...] = ()
    output_type: str = "ROW<>"
    changes: frozenset[RowKind] = ADDS
    states: tuple[OperatorState, ...] = ()

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"node {self.id} ({self.type})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPlan:
    """What EXECUTE PLAN runs: the statements as they were written, with names of `catalog` and `namespace`,
    and their operators.

    `temporary` are the statements that create the temporary tables, views and functions of the session
    that compiled it. `fingerprint` is that of the topology which was compiled. Nodes come after their inputs.
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
        """Each input of a node, with the node."""
        by_id = self.by_id
        for node in self.nodes:
            for source in node.inputs:
                yield by_id[source], node

    @property
    def by_id(self) -> Mapping[int, PlanNode]:
        return {node.id: node for node in self.nodes}


def nodes_of(operators: Sequence[Operator]) -> tuple[PlanNode, ...]:
    """Return the operators of all statements as nodes with ids from 1 on, inputs first."""
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
    """Return what tells this topology from others. Policies of TTLs are no part of it."""
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
    """Yield a warning for each operator whose state lives longer than that of an operator before it.

    The one before it gives a key as new that it has forgotten, and the other counts it once more.
    """
    for node in plan.nodes:
        for before in _stateful_before(plan, node) if node.states else ():
            shortest = min(before.states, key=lambda state: state.ttl)
            longest = max(node.states, key=lambda state: state.ttl)
            if shortest.ttl < longest.ttl:
                yield (
                    f"{before.name} keeps {shortest.name} for {ttl_text(shortest.ttl)}, "
                    f"less than {node.name} after it keeps {longest.name}, {ttl_text(longest.ttl)}: "
                    "a key that the first has forgotten comes to the second as new"
                )


def _stateful_before(plan: CompiledPlan, node: PlanNode) -> Iterator[PlanNode]:
    by_id, ahead = plan.by_id, list(reversed(node.inputs))
    while ahead:
        before = by_id[ahead.pop()]
        if before.states:
            yield before
        else:
            ahead.extend(reversed(before.inputs))
