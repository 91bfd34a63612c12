"""TTL policies of a query's states: from a compiled plan, from STATE_TTL hints, or from the session.

A compiled plan has precedence over hints, and hints over the session. A compiled plan lists policies in the
order of its operators, so the operators must request them in that order (`of_plan`). A hint belongs to one
SELECT, but analysed plans no longer contain hints or SELECTs. Hints are therefore read from the parsed query,
each with the text positions of the items and joins of its SELECT. An operator later finds its hint by the
position that Spark records in its nodes (`position_of`). A view has its own SQL, so its positions are offset
by a hash of the view's name.

It is an error if no operator uses a hint (`check`), because a TTL without effect lets state grow without
bound. Hints in views are exempt, because a view may also be read as a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from zlib import crc32

from pyspark.sql import SparkSession

from mt_core.base.options import FLINK_DURATION
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.plans.errors import PlanInvalid
from mt_core.plans.policies import TtlPolicy, hinted_policy, operator_policy
from mt_core.plans.states import planned_policy
from mt_core.sessions.properties.stream_properties import STATE_TTL_KEY, state_ttl_of
from mt_core.spark.driver.jvm_objects import class_name, scala_items, state_of

_HINT = "STATE_TTL"
_ABOVE_ITEMS = frozenset({"Distinct", "UnresolvedHaving", "WithWindowDefinition"})
"""Nodes that Spark's parser puts above the projection of a SELECT."""
_BESIDE_ALIASES = frozenset({"Filter", "ResolvedHint"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The hints of one SELECT.

    `starts` and `joins` are the positions of its items and joins. `reads` are the names of its tables, and
    `ttls` the policies by name. A hint in a view may be without effect, because the view may also be read
    as a batch.
    """

    starts: frozenset[int]
    joins: frozenset[int]
    reads: frozenset[str]
    ttls: Mapping[str, TtlPolicy]
    of_view: bool


@dataclass(frozen=True, slots=True)
class StateTtls:
    """The TTL policies of a query.

    `planned` policies, from a compiled plan, must be requested in the order of `Operator.all`: an operator
    after its inputs, and the left input before the right one.
    """

    default: TtlPolicy
    blocks: tuple[_Block, ...] = ()
    planned: Iterator[tuple[TtlPolicy, ...]] | None = None
    _used: set[tuple[int, str]] = field(init=False, default_factory=set, repr=False)

    def of_plan(self, count: int) -> tuple[TtlPolicy, ...] | None:
        """Return the policies of the next operator in a compiled plan, or None if there is no compiled plan.

        The operator must have *count* states.
        """
        if self.planned is None:
            return None
        ttls = next(self.planned, ())
        if len(ttls) != count:
            raise PlanInvalid(
                "state", f"has {len(ttls)} TTLs for an operator with {count} states; compile the plan again"
            )
        return ttls

    def of(self, *starts: int | None) -> TtlPolicy:
        """Return the policy of the operator whose SELECT items are at *starts*."""
        if (planned := self.of_plan(1)) is not None:
            return planned[0]
        for number, block in enumerate(self.blocks):
            if not block.starts.isdisjoint(starts):
                self._used.update((number, name) for name in block.ttls)
                return next(iter(block.ttls.values()))
        return self.default

    def of_join(self, start: int | None, inputs: Sequence[frozenset[str]]) -> tuple[TtlPolicy, ...]:
        """Return a policy for each input of the join at *start*; *inputs* contains their lower-case names."""
        if (planned := self.of_plan(len(inputs))) is not None:
            return planned
        for number, block in enumerate(self.blocks):
            if start in block.joins:
                return tuple(self._of_input(number, block, names) for names in inputs)
        return (self.default,) * len(inputs)

    def _of_input(self, number: int, block: _Block, names: frozenset[str]) -> TtlPolicy:
        for name, ttl in block.ttls.items():
            if name.lower() in names:
                self._used.add((number, name))
                return ttl
        return self.default

    def check(self) -> None:
        """Raise Unsupported for a hint that no operator uses."""
        for number, block in enumerate(self.blocks if self.planned is None else ()):
            for name in block.ttls:
                if (number, name) not in self._used and not block.of_view:
                    raise Unsupported(
                        f"{_HINT}('{name}'): that SELECT has no state with a TTL for it; "
                        "write the hint into the one that has ROW_NUMBER() or "
                        "GROUP BY, or joins it with another stream, or leave it out."
                    )


def read_ttls(
    text: str,
    parsed: Any,
    settings: Mapping[str, str],
    planned_ttls: Sequence[Sequence[str]] | None = None,
    views: Mapping[str, Any] = MappingProxyType({}),
) -> StateTtls:
    """Return the TTL policies of the query *parsed* from *text*.

    *planned_ttls* are those of a compiled plan, and *settings* the properties of the session. *views* is
    the result of `hinted_views`. Raises DefinitionInvalid for a hint about a table that its SELECT does not
    read.
    """
    hinted = {0: parsed} if _HINT in text.upper() else {}
    hinted |= {_base(name): view for name, view in views.items()}
    blocks = tuple(block for base, plan in hinted.items() for block in _blocks(plan, base))
    for block in blocks:
        for name in block.ttls:
            if name.lower() not in block.reads:
                raise DefinitionInvalid(
                    f"{_HINT}('{name}'): the SELECT reads {', '.join(sorted(block.reads)) or 'no table'}; "
                    "name a table after FROM, by its alias if it has one."
                )
    default = operator_policy(state_ttl_of(settings.get(STATE_TTL_KEY, "").strip()))
    if planned_ttls is None:
        return StateTtls(default, blocks)
    return StateTtls(default, blocks, iter([tuple(map(planned_policy, each)) for each in planned_ttls]))


def hinted_views(session: SparkSession, analysed: Any) -> Mapping[str, Any]:
    """Return the parsed SQL of the views with hints that an *analysed* query reads, by view name."""
    hinted: dict[str, Any] = {}
    plans = [analysed] if "View (" in str(analysed.toString()) else []
    while plans:
        plan = plans.pop()
        text = _text_of(plan) if class_name(plan) == "View" else ""
        if _HINT in text.upper():
            hinted[str(plan.desc().qualifiedName())] = state_of(session).sqlParser().parsePlan(text)
        plans.extend(scala_items(plan.children()))
    return hinted


def _text_of(view: Any) -> str:
    text = view.desc().viewText()
    return str(text.get()) if text.isDefined() else ""


def _blocks(plan: Any, base: int = 0) -> Iterator[_Block]:
    kind = class_name(plan)
    if kind == "UnresolvedWith":
        for entry in scala_items(plan.cteRelations()):
            yield from _blocks(entry._2(), base)
    if kind == "UnresolvedHint":
        ttls: dict[str, TtlPolicy] = {}
        while kind == "UnresolvedHint":
            if str(plan.name()).upper() == _HINT:
                # If several hints name a table, the first hint applies; within a hint, the last entry.
                ttls = dict(_ttls(plan)) | ttls
            plan = plan.child()
            kind = class_name(plan)
        if ttls:
            below = plan.children()
            yield _Block(
                starts=frozenset(_starts(plan, base)),
                joins=frozenset(_joins(below, base)),
                reads=frozenset(_reads(below)),
                ttls=ttls,
                of_view=base > 0,
            )
    for child in scala_items(plan.children()):
        yield from _blocks(child, base)


def _starts(plan: Any, base: int) -> Iterator[int]:
    """Yield the positions of the items of a SELECT."""
    while class_name(plan) in _ABOVE_ITEMS:
        plan = plan.child()
    for item in scala_items(plan.projectList() if class_name(plan) == "Project" else plan.expressions()):
        position = position_of(item)
        if position is not None:
            yield base + position


def _ttls(hint: Any) -> Iterator[tuple[str, TtlPolicy]]:
    parameters = [_text(each) for each in scala_items(hint.parameters())]
    for name, text in zip(parameters[::2], parameters[1::2], strict=True):
        policy = hinted_policy(text)
        if policy is None:
            raise DefinitionInvalid(
                f"{_HINT}('{name}' = '{text}'): expected {FLINK_DURATION.name}, at least 1 ms, or 0 for ever."
            )
        yield name, policy


def _text(parameter: Any) -> str:
    return str(parameter.value().toString() if class_name(parameter) == "Literal" else parameter.name())


def _joins(plans: Any, base: int) -> Iterator[int]:
    """Yield the positions of a SELECT's joins and of its WHERE, which Spark may merge into one."""
    for plan in scala_items(plans):
        if class_name(plan) not in {"SubqueryAlias", "UnresolvedRelation"}:
            position = position_of(plan)
            yield from () if position is None else (base + position,)
            yield from _joins(plan.children(), base)


def position_of(node: Any) -> int | None:
    """Return the position of *node* in the text of the query, with the offset of its view.

    Return None if Spark does not record a position.
    """
    origin = node.origin()
    if not origin.startIndex().isDefined():
        return None
    base = _base(str(origin.objectName().get())) if origin.objectName().isDefined() else 0
    return base + int(origin.startIndex().get())


def names_of(plan: Any) -> Iterator[str]:
    """Yield the lower-case names that a hint can use for the join input *plan*.

    This is its alias or, without an alias, each form of its table name.
    """
    while class_name(plan) in _BESIDE_ALIASES:
        plan = plan.child()
    if class_name(plan) == "SubqueryAlias":
        identifier = plan.identifier()
        parts = [*scala_items(identifier.qualifier()), identifier.name()]
        for first in range(len(parts)):
            yield ".".join(map(str, parts[first:])).lower()


def _base(view: str) -> int:
    return 1 + crc32(view.encode()) << 32


def _reads(plans: Any) -> Iterator[str]:
    """Yield the lower-case names of the tables that a SELECT reads.

    These are its aliases or, without an alias, the table name as written and its last part.
    """
    for plan in scala_items(plans):
        match class_name(plan):
            case "SubqueryAlias":
                yield str(plan.alias()).lower()
            case "UnresolvedRelation":
                parts = [str(part).lower() for part in scala_items(plan.multipartIdentifier())]
                yield from {parts[-1], ".".join(parts)}
            case _:
                yield from _reads(plan.children())
