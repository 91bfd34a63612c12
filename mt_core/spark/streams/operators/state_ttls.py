"""How long the operators of a query keep the state of a key that gets nothing new: by hints, else by the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.options import FLINK_DURATION
from mt_core.plans.errors import PlanInvalid
from mt_core.plans.policies import OPERATOR_TIME, OPERATOR_UPDATE, hinted_policy
from mt_core.sessions.properties.stream_properties import STATE_TTL_KEY, state_ttl_of
from mt_core.spark.driver.jvm_objects import class_name, scala_items

_HINT = "STATE_TTL"
_ABOVE_ITEMS = frozenset({"Distinct", "UnresolvedHaving", "WithWindowDefinition"})
"""What Spark's parser puts above the items of a SELECT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The hints of one SELECT: where its items begin in the text, what it reads, and the durations by name."""

    starts: frozenset[int]
    reads: frozenset[str]
    ttls: Mapping[str, timedelta]


@dataclass(frozen=True, slots=True)
class StateTtls:
    """The durations of a query; those that are `planned`, in a compiled plan, are asked for in the order of its operators.

    An operator asks after those below it, the left input before the right one, as `Operator.all` yields them.
    """

    default: timedelta
    blocks: tuple[_Block, ...] = ()
    planned: Iterator[tuple[timedelta, ...]] | None = None
    _used: list[_Block] = field(init=False, default_factory=list, repr=False)

    def of_plan(self, count: int) -> tuple[timedelta, ...] | None:
        """Return those of the next operator, which has *count* states, in a compiled plan; None without one."""
        if self.planned is None:
            return None
        ttls = next(self.planned, ())
        if len(ttls) != count:
            raise PlanInvalid(
                "state", f"has {len(ttls)} TTLs for an operator with {count} states; compile the plan again"
            )
        return ttls

    def of(self, *starts: int | None) -> timedelta:
        """Return that of the operator which the items at *starts* of the text ask for."""
        if (planned := self.of_plan(1)) is not None:
            return planned[0]
        for block in self.blocks:
            if not block.starts.isdisjoint(starts):
                self._used.append(block)
                return next(iter(block.ttls.values()))
        return self.default

    def check(self) -> None:
        """Raise Unsupported for a hint of a SELECT that has none of our operators."""
        for block in self.blocks if self.planned is None else ():
            if block not in self._used:
                raise Unsupported(
                    f"{_HINT}('{next(iter(block.ttls))}'): that SELECT keeps no state with a TTL; write the hint into the one that "
                    "has ROW_NUMBER() or GROUP BY, or leave it out."
                )


def read_ttls(
    text: str, parsed: Any, settings: Mapping[str, str], planned_ms: Sequence[Sequence[int]] | None = None
) -> StateTtls:
    """Return the durations of the query *parsed* from *text*, in a session with *settings*, or those *planned_ms* in a plan.

    Raises DefinitionInvalid for a hint about a table that its SELECT does not read.
    """
    blocks = tuple(_blocks(parsed)) if _HINT in text.upper() else ()
    for block in blocks:
        for name in block.ttls:
            if name.lower() not in block.reads:
                raise DefinitionInvalid(
                    f"{_HINT}('{name}'): the SELECT reads {', '.join(sorted(block.reads)) or 'no table'}; name a table after FROM, "
                    "by its alias if it has one."
                )
    planned = None
    if planned_ms is not None:
        planned = iter([tuple(timedelta(milliseconds=ttl) for ttl in each) for each in planned_ms])
    return StateTtls(state_ttl_of(settings.get(STATE_TTL_KEY, "").strip()), blocks, planned)


def _blocks(plan: Any) -> Iterator[_Block]:
    kind = class_name(plan)
    if kind == "UnresolvedWith":
        for entry in scala_items(plan.cteRelations()):
            yield from _blocks(entry._2())
    if kind == "UnresolvedHint":
        ttls: dict[str, timedelta] = {}
        while kind == "UnresolvedHint":
            if str(plan.name()).upper() == _HINT:
                # Of several hints about a table the first one counts, within one the last.
                ttls = dict(_ttls(plan)) | ttls
            plan = plan.child()
            kind = class_name(plan)
        if ttls:
            yield _Block(starts=frozenset(_starts(plan)), reads=frozenset(_reads(plan.children())), ttls=ttls)
    for child in scala_items(plan.children()):
        yield from _blocks(child)


def _starts(plan: Any) -> Iterator[int]:
    """Yield where the items of a SELECT begin in the text."""
    while class_name(plan) in _ABOVE_ITEMS:
        plan = plan.child()
    for item in scala_items(plan.projectList() if class_name(plan) == "Project" else plan.expressions()):
        start = item.origin().startIndex()
        if start.isDefined():
            yield int(start.get())


def _ttls(hint: Any) -> Iterator[tuple[str, timedelta]]:
    parameters = [_text(each) for each in scala_items(hint.parameters())]
    for name, text in zip(parameters[::2], parameters[1::2], strict=True):
        policy = hinted_policy(text)
        if policy is None:
            raise DefinitionInvalid(f"{_HINT}('{name}' = '{text}'): expected {FLINK_DURATION.name}, or 0 for ever.")
        if (policy.update, policy.time) != (OPERATOR_UPDATE, OPERATOR_TIME):
            raise Unsupported(
                f"{_HINT}('{name}' = '{text}'): the operators keep their states {OPERATOR_UPDATE} by {OPERATOR_TIME}, not "
                f"{policy}: their rows have no event time, and a read does not rewrite the state. Write the duration alone; a "
                "processor of your own, with mt_core.state, may have any policy."
            )
        yield name, policy.ttl


def _text(parameter: Any) -> str:
    return str(parameter.value().toString() if class_name(parameter) == "Literal" else parameter.name())


def _reads(plans: Any) -> Iterator[str]:
    """Yield the names of what a SELECT reads, in lower case: its aliases, else tables, as written and by the last part."""
    for plan in scala_items(plans):
        match class_name(plan):
            case "SubqueryAlias":
                yield str(plan.alias()).lower()
            case "UnresolvedRelation":
                parts = [str(part).lower() for part in scala_items(plan.multipartIdentifier())]
                yield from {parts[-1], ".".join(parts)}
            case _:
                yield from _reads(plan.children())
