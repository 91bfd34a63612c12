"""Streams: the stored definition, progress and state of a streaming job.

A streaming job outlives its session, its gateway process and often the release that created it. So everything
it needs is copied into one JSON definition when it is created: statements, session properties, temporary
objects, jars, and the engine's plan (`stream_plan.py`). Any process can start the stream from that definition
and its checkpoint, without a session. After the engine has prepared it, the definition stays the same, except
that a changed freshness of a materialized table changes the interval. What changes while the job lives (the
last batch, failures, a stop request) is in `StreamState`; `StreamProgress` is the engine's report and is not
stored. Definitions of version 1 remain readable, which is why the plan has a reader of its own below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from mt_core.base.versions import check_keys, check_version
from mt_core.model.reservation import Reservation
from mt_core.model.stream_plan import StreamPlan

STREAM_VERSION = 2
DEFAULT_INTERVAL_MS = 1000

TableName = tuple[str, ...]
"""The parts of a table's full name."""


class OnSourceRewrite(StrEnum):
    """What a stream does when a source table is rewritten: the option `streaming.on-source-rewrite`."""

    FAIL = "fail"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHint:
    """The hint `/*+ OPTIONS(…) */` on one relation of a query.

    *start* and *stop* are the position of the relation's name in the text.
    """

    start: int
    stop: int
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMember:
    """One statement as Spark parses it, with hints replaced by blanks to preserve positions.

    An *endless_only* statement reads only unbounded sources as streams, and any other source as it is at each
    batch. `state_ttls` come from a compiled plan: for each stateful operator, in order, the TTLs of its
    states in the syntax of a hint. None means the TTLs of the hints and the session.
    """

    text: str
    hints: tuple[SourceHint, ...] = ()
    endless_only: bool = False
    state_ttls: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDefinition:
    """Everything that a process needs to run a stream.

    `settings` are the properties of the session. `temporary` are the statements that create its temporary
    views and tables, in order. `checkpoint` is the stream's folder; `restored_from` is the savepoint that it
    starts from. `plan` is what the engine decided when the job was created; it is None until the engine has
    prepared the definition, and only the engine reads it. `reads` and `writes` are table names. The first
    batch `creates` one of the written tables; if `replaces` is True, it replaces an existing table. `keeps`
    is the id of the materialized table that the stream maintains; the stream ends when that table is dropped.
    """

    members: tuple[StreamMember, ...]
    catalog: str
    namespace: tuple[str, ...]
    zone: str
    checkpoint: str
    settings: Mapping[str, str] = field(default_factory=dict)
    temporary: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    restored_from: str | None = None
    interval_ms: int = DEFAULT_INTERVAL_MS
    on_source_rewrite: OnSourceRewrite = OnSourceRewrite.FAIL
    plan: StreamPlan | None = None
    reads: tuple[TableName, ...] = ()
    writes: tuple[TableName, ...] = ()
    creates: Reservation | None = None
    replaces: bool = False
    keeps: str | None = None

    @property
    def planned(self) -> StreamPlan:
        """The plan of a prepared definition, never None."""
        assert self.plan is not None, "the definition is not prepared"
        return self.plan

    def to_json(self) -> dict[str, Any]:
        return {
            "version": STREAM_VERSION,
            "members": [_member_json(member) for member in self.members],
            "catalog": self.catalog,
            "namespace": list(self.namespace),
            "zone": self.zone,
            "checkpoint": self.checkpoint,
            "settings": dict(self.settings),
            "temporary": list(self.temporary),
            "jars": list(self.jars),
            "restored_from": self.restored_from,
            "interval_ms": self.interval_ms,
            "on_source_rewrite": self.on_source_rewrite.value,
            "plan": None if self.plan is None else self.plan.to_json(),
            "reads": [list(name) for name in self.reads],
            "writes": [list(name) for name in self.writes],
            **(
                {} if self.creates is None else {"creates": self.creates.to_json(), "replaces": self.replaces}
            ),
            **({} if self.keeps is None else {"keeps": self.keeps}),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StreamDefinition:
        check_version("The definition of the job", body, {1, STREAM_VERSION})
        known = {"version", "pinned", *(each.name for each in fields(cls))}
        check_keys("The definition of the job", body, known)
        return cls(
            members=tuple(map(_member, body["members"])),
            catalog=body["catalog"],
            namespace=tuple(body["namespace"]),
            zone=body["zone"],
            checkpoint=body["checkpoint"],
            settings=body["settings"],
            temporary=tuple(body["temporary"]),
            jars=tuple(body["jars"]),
            restored_from=body["restored_from"],
            interval_ms=body["interval_ms"],
            on_source_rewrite=OnSourceRewrite(body["on_source_rewrite"]),
            plan=_plan(body),
            reads=tuple(map(tuple, body["reads"])),
            writes=tuple(map(tuple, body["writes"])),
            creates=Reservation.from_json(body["creates"]) if "creates" in body else None,
            replaces=body.get("replaces", False),
            keeps=body.get("keeps"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """A stream's progress: the last committed batch (None before the first), and the rows read and written.

    Rows are counted since the last start, None if unknown. `offsets` are the positions in the sources and
    `states` the sizes of the operators' state, both as JSON text. A *finished* stream has read everything
    that its sources will ever contain. A stream that is not running, has not finished and has no error was
    lost with the engine, or never started. A *bystander* had no batch in progress when it was lost, so it
    cannot be the cause. A restart cannot fix a *final* error. An error about something *missing* is resolved
    once that is restored.
    """

    batch: int | None = None
    rows_read: int | None = None
    rows_written: int | None = None
    offsets: str | None = None
    states: str | None = None
    running: bool = False
    finished: bool = False
    error: str | None = None
    final: bool = False
    missing: bool = False
    bystander: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A request to stop a stream and, if *savepoint* is given, to copy its checkpoint to that folder.

    With *drop*, the table that the stream creates is dropped too, even if it has rows, and the stream of a
    materialized table ends with its table. Without *drop*, the stream of a materialized table is suspended.
    """

    savepoint: str | None = None
    drain: bool = False
    drop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """What the owner of a stream stores in addition to its definition.

    `failures` is the number of failures since the last batch. The stream is not started before `start_at`. If
    a suspended job lacks something, it is checked again at that time. A stored `stop` is carried out by
    whichever gateway owns the job. After that the stream never resumes, unless the stop was *refused* for the
    reason given there.
    """

    batch: int | None = None
    offsets: str | None = None
    states: str | None = None
    failures: int = 0
    start_at: datetime | None = None
    stop: StopRequest | None = None
    savepoint: str | None = None
    refused: str | None = None


def _plan(body: Mapping[str, Any]) -> StreamPlan | None:
    """Return the plan of a definition.

    Version 1 stores the plan under another key, and a missing plan as an empty one.
    """
    if "pinned" in body:
        return StreamPlan.from_pinned(body["pinned"]) if body["pinned"] else None
    return None if body["plan"] is None else StreamPlan.from_json(body["plan"])


def _member_json(member: StreamMember) -> dict[str, Any]:
    hints = [{"start": hint.start, "stop": hint.stop, "options": dict(hint.options)} for hint in member.hints]
    return {
        "text": member.text,
        "hints": hints,
        **({"endless_only": True} if member.endless_only else {}),
        **({} if member.state_ttls is None else {"state_ttls": [list(each) for each in member.state_ttls]}),
    }


def _member(body: Mapping[str, Any]) -> StreamMember:
    return StreamMember(
        text=body["text"],
        hints=tuple(SourceHint(**hint) for hint in body["hints"]),
        endless_only=body.get("endless_only", False),
        state_ttls=tuple(map(tuple, body["state_ttls"])) if "state_ttls" in body else None,
    )
