"""The plan of a stream: decisions of the engine at creation that every attempt of the job must repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from mt_core.base.versions import check_keys, check_version

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a stream begins to read the Iceberg table with the given uuid.

    It reads the snapshots after `snapshot`, or all of them if this is None. `millis` is the commit time of
    `snapshot`.
    """

    uuid: str
    snapshot: str | None = None
    millis: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"uuid": self.uuid, "snapshot": self.snapshot, "millis": self.millis}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Start:
        return cls(uuid=body["uuid"], snapshot=body["snapshot"], millis=body["millis"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """The table `columns` that one INSERT writes, in the order of its query's columns.

    `given` are the names of the query's columns when the job was created. If the key `materialized` is not
    empty, the stream materializes its rows by it.
    """

    columns: tuple[str, ...]
    given: tuple[str, ...]
    materialized: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "given": list(self.given),
            "materialized": list(self.materialized),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> MemberPlan:
        return cls(
            columns=tuple(body["columns"]),
            given=tuple(body["given"]),
            materialized=tuple(body["materialized"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTarget:
    """A table with a connector to which a job writes: its name in the statement, connector, Spark name, key.

    `stored_name` is the quoted name in Spark, and `keys` is the primary key.
    """

    table: tuple[str, ...]
    connector: str
    stored_name: str
    keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        body = {"table": list(self.table), "connector": self.connector, "stored_name": self.stored_name}
        return body | ({"keys": list(self.keys)} if self.keys else {})

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> SinkTarget:
        return cls(
            table=tuple(body["table"]),
            connector=body["connector"],
            stored_name=body["stored_name"],
            keys=tuple(body.get("keys", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTarget:
    """An Iceberg table that a job writes to: its uuid and primary key."""

    uuid: str
    keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"uuid": self.uuid, "keys": list(self.keys)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> IcebergTarget:
        return cls(uuid=body["uuid"], keys=tuple(body["keys"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """The engine's decisions about a job.

    `starts` maps each Iceberg source to the position where reading begins; with `begun`, the job of the
    savepoint has already written the rows up to there. `sources` is the order of all sources in Spark's
    offset log, None in a plan of version 1 that lacks it. `members` contains one entry for each INSERT.
    `sinks` are the written tables that have a connector, and `tables` the written Iceberg tables by name.

    With `has_checkpoint` the checkpoint was created with the job, so a missing one is lost; a plan of version
    1 may not say so.
    """

    starts: Mapping[str, Start] = field(default_factory=dict)
    begun: bool = False
    sources: tuple[str, ...] | None = None
    members: tuple[MemberPlan, ...] = ()
    sinks: tuple[SinkTarget, ...] = ()
    tables: Mapping[str, IcebergTarget] = field(default_factory=dict)
    has_checkpoint: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "version": PLAN_VERSION,
            "starts": {name: start.to_json() for name, start in self.starts.items()},
            "begun": self.begun,
            "sources": None if self.sources is None else list(self.sources),
            "members": [member.to_json() for member in self.members],
            "sinks": [target.to_json() for target in self.sinks],
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "has_checkpoint": self.has_checkpoint,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StreamPlan:
        check_version("The plan of the job", body, {PLAN_VERSION})
        check_keys("The plan of the job", body, {"version", *(each.name for each in fields(cls))})
        sources = body["sources"]
        return cls(
            starts={name: Start.from_json(start) for name, start in body["starts"].items()},
            begun=body["begun"],
            sources=None if sources is None else tuple(sources),
            members=tuple(map(MemberPlan.from_json, body["members"])),
            sinks=tuple(map(SinkTarget.from_json, body["sinks"])),
            tables={name: IcebergTarget.from_json(table) for name, table in body["tables"].items()},
            has_checkpoint=body["has_checkpoint"],
        )

    @classmethod
    def from_pinned(cls, body: Mapping[str, Any]) -> StreamPlan:
        """Return the plan of a version 1 definition."""
        members = zip(body["columns"], body["given"], body["materialized"], strict=True)
        tables = {name: {"uuid": uuid, "keys": body["keys"][name]} for name, uuid in body["targets"].items()}
        return cls.from_json(
            {
                "version": PLAN_VERSION,
                "starts": body["starts"],
                "begun": body["begun"],
                "sources": body.get("sources"),
                "members": [
                    {"columns": columns, "given": given, "materialized": key}
                    for columns, given, key in members
                ],
                "sinks": body["sinks"],
                "tables": tables,
                "has_checkpoint": "checkpoint" in body,
            }
        )
