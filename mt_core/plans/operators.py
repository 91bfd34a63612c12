"""The operators of a streaming statement: inputs, output and states, with Flink's names (FLIP-292)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from mt_core.base.rowset import RowKind as RowKind
from mt_core.plans.policies import (
    OPERATOR_TIME,
    OPERATOR_UPDATE,
    TtlPolicy,
    TtlTimeCharacteristic,
    TtlUpdateEvent,
)

ADDS = frozenset({RowKind.INSERT})
"""The changes that an insert-only operator emits."""
ALL = frozenset(RowKind)
_PREFIX = "stream-exec-"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState:
    """A state of an operator; `index` is the number of the input that it belongs to, from 0.

    An entry expires after `ttl`, measured in `time` since the last access of the kind that `update` names.
    """

    index: int
    name: str
    ttl: timedelta
    update: TtlUpdateEvent = OPERATOR_UPDATE
    time: TtlTimeCharacteristic = OPERATOR_TIME

    @classmethod
    def of(cls, index: int, name: str, policy: TtlPolicy) -> OperatorState:
        return cls(index=index, name=name, ttl=policy.ttl, update=policy.update, time=policy.time)

    @property
    def policy(self) -> TtlPolicy:
        return TtlPolicy(self.ttl, self.time, self.update)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of a statement.

    `type` includes a version (`stream-exec-join_1`). `output` contains the names and Spark SQL types of the
    columns.
    """

    type: str
    description: str
    inputs: tuple[Operator, ...] = ()
    changes: frozenset[RowKind] = ADDS
    states: tuple[OperatorState, ...] = ()
    output: tuple[tuple[str, str], ...] = ()

    @property
    def keeping(self) -> tuple[str, ...]:
        """The names of the stateful operators in the tree, root first."""
        own = (self.type.removeprefix(_PREFIX),) if self.states else ()
        return own + tuple(name for operator in self.inputs for name in operator.keeping)

    def all(self) -> Iterator[Operator]:
        """Yield this operator and all operators below it, inputs first."""
        for operator in self.inputs:
            yield from operator.all()
        yield self
