"""The operator tree of a statement as text, root first, like Flink's EXPLAIN CHANGELOG_MODE."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mt_core.base.rowset import RowKind
from mt_core.plans.durations import FOR_EVER, ttl_text
from mt_core.plans.operators import Operator, OperatorState
from mt_core.plans.policies import TtlTimeCharacteristic, TtlUpdateEvent, policy_text

_LETTERS = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}
_LAST = {
    TtlUpdateEvent.ON_CREATE: "created",
    TtlUpdateEvent.ON_READ: "read last",
    TtlUpdateEvent.ON_WRITE: "written last",
    TtlUpdateEvent.ON_READ_WRITE: "read or written last",
}


def tree_lines(operator: Operator, mark: Callable[[Operator], str] = lambda _operator: "") -> Iterator[str]:
    """Yield one line for *operator* and each operator below it, with its changelog mode and state TTLs.

    Each line begins with the result of *mark* for its operator.
    """
    yield mark(operator) + _line(operator)
    *others, last = operator.inputs or (None,)
    for each in others:
        yield from _below(each, ":- ", ":  ", mark)
    yield from _below(last, "+- ", "   ", mark)


def state_lines(operator: Operator) -> Iterator[str]:
    """Yield a line with the retention time of each state of *operator* and of all operators below it.

    The states of an operator follow those of its inputs.
    """
    for each in operator.all():
        for state in each.states:
            yield f"State {state.name} of {name_of(each)}: {_retention(state)}"


def changelog_mode(changes: frozenset[RowKind]) -> str:
    """Return *changes* in Flink's notation, such as `[I,UB,UA]`."""
    return f"[{','.join(letters for kind, letters in _LETTERS.items() if kind in changes)}]"


def name_of(operator: Operator) -> str:
    """Return Flink's display name of *operator*: GroupAggregate for `stream-exec-group-aggregate_1`."""
    words = (
        operator.type.removeprefix("stream-exec-").removeprefix("batch-exec-").rpartition("_")[0].split("-")
    )
    return "".join(word.capitalize() for word in words)


def _below(
    operator: Operator | None, first: str, others: str, mark: Callable[[Operator], str]
) -> Iterator[str]:
    if operator is not None:
        head, *tail = tree_lines(operator, mark)
        yield first + head
        yield from (others + line for line in tail)


def _line(operator: Operator) -> str:
    details = [operator.description, f"changelogMode={changelog_mode(operator.changes)}"]
    if operator.states:
        details.append(f"state=[{', '.join(map(_state, operator.states))}]")
    return f"{name_of(operator)}({', '.join(details)})"


def _state(state: OperatorState) -> str:
    return f"{state.name}: {'for ever' if state.ttl >= FOR_EVER else policy_text(state.policy)}"


def _retention(state: OperatorState) -> str:
    if state.ttl >= FOR_EVER:
        return "retained for ever"
    in_time = " in event time" if state.time is TtlTimeCharacteristic.EVENT_TIME else ""
    return f"an entry expires {ttl_text(state.ttl)} after it was {_LAST[state.update]}{in_time}"
