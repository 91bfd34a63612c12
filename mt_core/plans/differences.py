"""Differences between two plans as text, for EXECUTE PLAN and `freshtable plan diff`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from mt_core.plans.compiled import CompiledPlan, PlanNode
from mt_core.plans.explained import shown_statement
from mt_core.plans.policies import policy_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference at a `place`; `before` or `after` is None if that plan has nothing there."""

    place: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.place} is new: {self.after}"
        if self.after is None:
            return f"{self.place} is gone: {self.before}"
        return f"{self.place}: {self.before} -> {self.after}"


def differences(before: CompiledPlan, after: CompiledPlan) -> Iterator[Difference]:
    """Yield the differences between two plans: statements, settings, operators, and state TTLs."""
    yield from _changed("sparkVersion", before.spark_version, after.spark_version)
    yield from _changed("mode", before.mode.value, after.mode.value)
    yield from _changed("current database", _database(before), _database(after))
    yield from _numbered("statement", before.statements, after.statements)
    yield from _numbered("temporary object", before.temporary, after.temporary)
    yield from topology_differences(before.nodes, after.nodes)
    for one, other in _pairs(before.nodes, after.nodes):
        if one is not None and other is not None:
            yield from _ttl_differences(one, other)


def topology_differences(before: Sequence[PlanNode], after: Sequence[PlanNode]) -> Iterator[Difference]:
    """Yield the differences between two topologies, except states that only one of them names."""
    for one, other in _pairs(before, after):
        if one is None and other is not None:
            yield Difference(place=other.name, before=None, after=other.description)
        elif one is not None and other is None:
            yield Difference(place=one.name, before=one.description, after=None)
        elif one is not None and other is not None:
            for what, old, new in zip(
                ("description", "columns", "changes"), _facts(one), _facts(other), strict=True
            ):
                yield from _changed(f"{what} of {one.name}", old, new)
            if len(before) == len(after):
                yield from _changed(f"inputs of {one.name}", str(list(one.inputs)), str(list(other.inputs)))
            for mine, theirs in zip(one.states, other.states, strict=False):
                yield from _changed(f"state {mine.index} of {one.name}", mine.name, theirs.name)


def _ttl_differences(before: PlanNode, after: PlanNode) -> Iterator[Difference]:
    old, new = ({state.name: policy_text(state.policy) for state in node.states} for node in (before, after))
    for name in dict.fromkeys([*old, *new]):
        yield from _changed(f"TTL of {name} of {before.name}", old.get(name), new.get(name))


def _pairs(
    before: Sequence[PlanNode], after: Sequence[PlanNode]
) -> Iterator[tuple[PlanNode | None, PlanNode | None]]:
    """Yield pairs of corresponding nodes; nodes without a counterpart are paired with None."""
    one, other = [node.type for node in before], [node.type for node in after]
    for what, start, end, other_start, other_end in SequenceMatcher(
        None, one, other, autojunk=False
    ).get_opcodes():
        if what == "equal":
            yield from zip(before[start:end], after[other_start:other_end], strict=True)
        else:
            yield from ((node, None) for node in before[start:end])
            yield from ((None, node) for node in after[other_start:other_end])


def _facts(node: PlanNode) -> tuple[str, str, str]:
    changes = ", ".join(kind.value for kind in sorted(node.changes, key=lambda kind: kind.code))
    return node.description, node.output_type, changes


def _database(plan: CompiledPlan) -> str:
    return ".".join((plan.catalog, *plan.namespace))


def _numbered(what: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Difference]:
    for number, (old, new) in enumerate(zip_longest(before, after), 1):
        if old != new:
            shown = [text if text is None else shown_statement(text) for text in (old, new)]
            yield Difference(place=f"{what} {number}", before=shown[0], after=shown[1])


def _changed(place: str, before: str | None, after: str | None) -> Iterator[Difference]:
    if before != after:
        yield Difference(place=place, before=before, after=after)
