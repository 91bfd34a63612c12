"""Recognizes a checkpoint that contains the state of other operators, which no restart can read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mt_core.spark.connectors.stream_errors import StreamBroken
from mt_core.spark.driver.failures import Thrown

_CONDITIONS = frozenset(
    {
        "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
        "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
        "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
        "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    }
)
# Prefixes of the lines in Spark's messages that describe the difference. Other lines advise ignoring it.
_TELLING = ("Existing ", "Stateful operators ", "Cannot change ", "Incompatible ", "Schema evolution ")
_ADVICE = ". Please "
_TIMES = {"ProcessingTime": "PROCESSING TIME", "EventTime": "EVENT TIME"}
_CHANGED_TIME = re.compile(r"Cannot change timeMode from (\w+) to (\w+) between restarts")
_WAY_OUT = "RESET 'execution.savepoint.path' and run the statement again: its new job starts without state."


def foreign_state(causes: Iterable[Thrown]) -> StreamBroken | None:
    """Return the error of a stream if its state belongs to other operators, or None.

    *causes* are the Java exceptions with which the stream failed.
    """
    thrown = next((each for each in causes if each.condition in _CONDITIONS), None)
    if thrown is None:
        return None
    change = _CHANGED_TIME.search(thrown.message)
    if change is not None and _TIMES.keys() >= set(change.groups()):
        before, after = (_TIMES[each] for each in change.groups())
        return StreamBroken(
            f"The time of a TTL was changed from {before} to {after}, "
            "and the entries in the checkpoint of the job expire by "
            f"{before}. Use {before} again, in the hint STATE_TTL or as `time` in the plan, or {_WAY_OUT}"
        )
    body = thrown.message.removeprefix(f"[{thrown.condition}] ").partition(" SQLSTATE: ")[0]
    details = [
        line.partition(_ADVICE)[0] + "." * (_ADVICE in line)
        for line in body.splitlines()
        if line.startswith(_TELLING)
    ]
    return StreamBroken(
        "The checkpoint of the job has the state of other operators, which this query cannot read. "
        f"{' '.join(details)} Start from a savepoint of a job with the same operators, or {_WAY_OUT}"
    )
