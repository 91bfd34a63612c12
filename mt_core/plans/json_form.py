"""The JSON form of compiled plans, modelled on Flink's: a writer, and a reader of files that users edit.

A plan file is a contract with a user: FLIP-292 tells users to edit the TTLs in it, so a file is hand-written
input, not a cache. The reader is therefore strict about everything that the plan uses. Every error names the
exact place (such as `nodes[2].state[0].ttl`), the invalid value and the valid ones. The reader ignores
unknown keys, so that later versions can add some; `version` changes only if an old reader would misread a
file. Edges repeat the inputs of the nodes, as in Flink's files, and must agree with them. The reader checks
only the form. Whether the nodes are still those of the statements is checked against a new topology
(`states.check_topology`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mt_core.base.plural import plural
from mt_core.plans.compiled import CompiledPlan, PlanMode, PlanNode
from mt_core.plans.durations import EXPECTED, ttl_of, ttl_text
from mt_core.plans.errors import PlanInvalid
from mt_core.plans.operators import OperatorState, RowKind
from mt_core.plans.policies import OPERATOR_TIME, OPERATOR_UPDATE, TtlTimeCharacteristic, TtlUpdateEvent

VERSION = 1
_FLINK = "flinkVersion"
_Value = TypeVar("_Value", bool, int, str, list[Any], dict[str, Any])
_NAMES = {int: "a whole number", str: "a string", list: "a list", dict: "an object", bool: "true or false"}


# ---------------------------------------------------------------------------------------------------- writing


def plan_text(plan: CompiledPlan) -> str:
    """Return *plan* as the text of a plan file."""
    return json.dumps(_plan_json(plan), indent=2, separators=(",", " : "), ensure_ascii=False) + "\n"


def _plan_json(plan: CompiledPlan) -> dict[str, Any]:
    return {
        "version": VERSION,
        "sparkVersion": plan.spark_version,
        "mode": plan.mode.value,
        "statements": list(plan.statements),
        "catalog": plan.catalog,
        "database": list(plan.namespace),
        "temporary": list(plan.temporary),
        "fingerprint": plan.fingerprint,
        "nodes": [_node_json(node) for node in plan.nodes],
        "edges": [_edge_json(source, target) for source, target in plan.edges],
    }


def _node_json(node: PlanNode) -> dict[str, Any]:
    return {
        "id": node.id,
        "type": node.type,
        "inputs": list(node.inputs),
        "outputType": node.output_type,
        "changelogMode": [kind.name for kind in RowKind if kind in node.changes],
        "description": node.description,
        **({"state": [_state_json(state) for state in node.states]} if node.states else {}),
    }


def _state_json(state: OperatorState) -> dict[str, Any]:
    return {
        "index": state.index,
        "ttl": ttl_text(state.ttl),
        "name": state.name,
        **({} if state.update is OPERATOR_UPDATE else {"update": state.update.value}),
        **({} if state.time is OPERATOR_TIME else {"time": state.time.value}),
    }


def _edge_json(source: PlanNode, target: PlanNode) -> dict[str, Any]:
    shuffle = {"type": "HASH" if target.states else "FORWARD"}
    return {"source": source.id, "target": target.id, "shuffle": shuffle, "shuffleMode": "PIPELINED"}


# ---------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class _Part:
    """A JSON object and its place in the plan, such as `nodes[2].state[0]`."""

    place: str
    body: Mapping[str, Any]

    def at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def get(self, key: str, kind: type[_Value], default: _Value | None = None) -> _Value:
        """Return the value of *key*, or *default* if the value is missing or null.

        Raises PlanInvalid if the value has another type, or is missing and there is no *default*.
        """
        if self.body.get(key) is None and default is not None:
            return default
        if key not in self.body:
            raise PlanInvalid(self.at(key), "is missing")
        return _checked(self.at(key), self.body[key], kind)

    def items(self, key: str, kind: type[_Value], *, optional: bool = False) -> list[_Value]:
        values = self.get(key, list, [] if optional else None)
        return [_checked(f"{self.at(key)}[{place}]", each, kind) for place, each in enumerate(values)]

    def parts(self, key: str, *, optional: bool = False) -> list[_Part]:
        bodies: list[dict[str, Any]] = self.items(key, dict, optional=optional)
        return [_Part(f"{self.at(key)}[{place}]", body) for place, body in enumerate(bodies)]


def read_plan(text: str) -> CompiledPlan:
    """Parse a plan file, ignoring unknown keys.

    Raises PlanInvalid with the place and the reason.
    """
    try:
        body = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as cause:
        raise PlanInvalid("the file", f"is not JSON: {cause}") from cause
    whole = _Part("", _checked("the file", body, dict))
    if _FLINK in whole.body and "version" not in whole.body:
        raise PlanInvalid(
            _FLINK, "shows that Flink compiled the plan, which only Flink can run; compile the statement here"
        )
    version = whole.get("version", int)
    if version != VERSION:
        raise PlanInvalid(
            "version", f"{version} is not supported, only version {VERSION}; compile the plan again"
        )
    modes = ", ".join(PlanMode)
    mode = whole.get("mode", str)
    if mode not in set(PlanMode):
        raise PlanInvalid("mode", f"'{mode}' is not one of {modes}")
    statements = tuple(whole.items("statements", str))
    if not statements:
        raise PlanInvalid("statements", "is empty")
    nodes = _nodes(whole.parts("nodes"))
    _check_edges(whole, nodes)
    return CompiledPlan(
        spark_version=whole.get("sparkVersion", str),
        mode=PlanMode(mode),
        statements=statements,
        catalog=whole.get("catalog", str),
        namespace=tuple(whole.items("database", str)),
        temporary=tuple(whole.items("temporary", str, optional=True)),
        fingerprint=whole.get("fingerprint", str),
        nodes=nodes,
    )


def _checked(place: str, value: object, kind: type[_Value]) -> _Value:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise PlanInvalid(place, f"{_shown(value)} is not {_NAMES[kind]}")
    return value


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _nodes(parts: Sequence[_Part]) -> tuple[PlanNode, ...]:
    ids: set[int] = set()
    nodes: list[PlanNode] = []
    for part in parts:
        node = _node(part)
        if node.id in ids:
            raise PlanInvalid(part.at("id"), f"{node.id} is also the id of another node")
        for place, each in enumerate(node.inputs):
            if each not in ids:
                raise PlanInvalid(f"{part.at('inputs')}[{place}]", f"no earlier node has the id {each}")
        ids.add(node.id)
        nodes.append(node)
    return tuple(nodes)


def _node(part: _Part) -> PlanNode:
    inputs = tuple(part.items("inputs", int))
    return PlanNode(
        id=part.get("id", int),
        type=part.get("type", str),
        description=part.get("description", str),
        inputs=inputs,
        output_type=part.get("outputType", str),
        changes=frozenset(
            _kind(f"{part.at('changelogMode')}[{place}]", name)
            for place, name in enumerate(part.items("changelogMode", str))
        ),
        states=_states(part, len(inputs)),
    )


def _kind(place: str, name: str) -> RowKind:
    if name not in RowKind.__members__:
        raise PlanInvalid(place, f"'{name}' is not one of {', '.join(RowKind.__members__)}")
    return RowKind[name]


def _states(node: _Part, inputs: int) -> tuple[OperatorState, ...]:
    """Return the states of a node: one per input, or a single state for all inputs.

    A node without states uses the session's TTL.
    """
    states = tuple(map(_state, node.parts("state", optional=True)))
    if len(states) not in {0, 1, inputs}:
        raise PlanInvalid(
            node.at("state"),
            f"has {len(states)} entries, but the node has {inputs} {plural(inputs, 'input')}: "
            "inconsistent state metadata",
        )
    for place, state in enumerate(states):
        if state.index != place:
            raise PlanInvalid(
                f"{node.at('state')}[{place}].index",
                f"{state.index} is not {place}: inconsistent state metadata",
            )
    return states


def _ttl_text(part: _Part) -> str:
    """Return the TTL of a state as text; numbers are milliseconds, as in FLIP-292."""
    value = part.body.get("ttl", "")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value} ms"
    if not isinstance(value, str):
        raise PlanInvalid(
            part.at("ttl"), f"{_shown(value)} is not a string or a whole number of milliseconds"
        )
    return part.get("ttl", str)


def _state(part: _Part) -> OperatorState:
    text = _ttl_text(part)
    ttl = ttl_of(text)
    if ttl is None:
        raise PlanInvalid(part.at("ttl"), f"'{text}' is not {EXPECTED}")
    return OperatorState(
        index=part.get("index", int),
        name=part.get("name", str),
        ttl=ttl,
        update=TtlUpdateEvent(_one_of(part, "update", TtlUpdateEvent, OPERATOR_UPDATE)),
        time=TtlTimeCharacteristic(_one_of(part, "time", TtlTimeCharacteristic, OPERATOR_TIME)),
    )


def _one_of(part: _Part, key: str, names: Iterable[str], default: str) -> str:
    name = part.get(key, str, str(default))
    if name not in set(names):
        raise PlanInvalid(part.at(key), f"'{name}' is not one of {', '.join(names)}")
    return name


def _check_edges(whole: _Part, nodes: Sequence[PlanNode]) -> None:
    """Raise PlanInvalid unless the edges, if any, repeat exactly the inputs of the nodes."""
    if "edges" not in whole.body:
        return
    expected = {(source, node.id) for node in nodes for source in node.inputs}
    edges = {(part.get("source", int), part.get("target", int)): part.place for part in whole.parts("edges")}
    for edge, place in edges.items():
        if edge not in expected:
            raise PlanInvalid(place, f"node {edge[1]} has no input {edge[0]}")
    for source, target in sorted(expected - edges.keys()):
        raise PlanInvalid("edges", f"lack one from node {source} to node {target}, whose inputs include it")
