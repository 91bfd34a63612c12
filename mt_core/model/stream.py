"""Streams: what a streaming INSERT, a set of these, a CREATE TABLE AS or a materialized table needs to run
without a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mt_core.model.reservation import Reservation
from mt_core.model.stream_plan import StreamPlan

STREAM_VERSION = 2
DEFAULT_INTERVAL_MS = 1000

TableName = tuple[str, ...]
"""The parts of the full name of a table."""


class OnSourceRewrite(StrEnum):
    """What a stream does when a table that it reads is rewritten: `streaming.on-source-rewrite`."""

    FAIL = "fail"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHint:
    """Options of one relation of a query: `/*+ OPTIONS(…) */` after the name that is at *start*
    to *stop* of the text.
    """

    start: int
    stop: int
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMember:
    """One statement as Spark reads it: blanks stand where its hints were, so that positions are those
    of the user's text.

    One that is *endless_only* reads as streams only what can be read in no other way, and all else as it
    stands at each batch. `state_ttls` are those of a compiled plan, as a hint writes them: for each operator
    that keeps state, in order, those of its states; None for those of the hints and the session.
    """

    text: str
    hints: tuple[SourceHint, ...] = ()
    endless_only: bool = False
    state_ttls: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDefinition:
    """What a stream runs from, in any process.

    `settings` are the properties of its session. `temporary` are the statements, in order, that create the
    temporary views and tables of its session. `checkpoint` is its folder; `restored_from` is the savepoint
    it begins with. `plan` is what the engine decided when the job was created, and nothing else reads;
    None before it has prepared the definition. `reads` and `writes` are its tables; its first batch `creates`
    one of these, which then `replaces` the one that is there. `keeps` is the id of the materialized table
    that it writes, and whose life it shares.
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
        """The plan of a definition that the engine has prepared."""
        assert self.plan is not None, "only what is prepared has a plan"
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
    """How far a stream has come: the last batch that it committed, None before the first,
    and what it read and wrote.

    The rows are those since its last start, None where they are not known. `offsets` is where its sources
    are, and `states` what its operators keep, as JSON text. A *finished* stream has read all that its sources
    will ever have. One that does not run, is not finished and has no error was lost with the engine, or never
    started; a *bystander* had no batch at work then, so that it was not the cause. No start mends an error
    that is *final*; one that names what is *missing* passes when that is back.
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
    """How a stream is to be stopped: with a copy of its checkpoint in the folder *savepoint*, or without one.

    With *drop* the table that it creates goes with it, also if it has rows;
    the stream of a materialized table ends with its table then, and is suspended otherwise.
    """

    savepoint: str | None = None
    drain: bool = False
    drop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """What the owner of a stream stores beside its definition.

    `failures` counts those since the last batch; the stream is not started before `start_at`, and that
    of a suspended job, for which something is missing then, is looked at again. A stored `stop` is
    carried out by whichever gateway owns the job, and the stream never goes on after it, unless it was
    *refused* for the reason there.
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
    """Return the plan of a definition; version 1 has it under another name, and empty if there is none."""
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
        state_ttls=_state_ttls(body),
    )


def _state_ttls(body: Mapping[str, Any]) -> tuple[tuple[str, ...], ...] | None:
    """Return the TTLs of a member; those that were stored before a TTL had a policy are numbers
    of milliseconds.
    """
    if "state_ttls_ms" in body:
        return tuple(tuple(f"{ttl} ms" for ttl in each) for each in body["state_ttls_ms"])
    ttls = body.get("state_ttls")
    return None if ttls is None else tuple(map(tuple, ttls))
