"""The plan of a stream: decisions of the engine at creation that every attempt of the job must repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

    `given` are the names of the query's columns when the job was created. It is None for jobs of earlier
    releases, which stored only the number of columns. If `materialized` is not empty, it is the key by which
    the stream materializes its rows.
    """

    columns: tuple[str, ...]
    given: tuple[str, ...] | None = None
    materialized: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "given": None if self.given is None else list(self.given),
            "materialized": list(self.materialized),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> MemberPlan:
        given = body["given"]
        return cls(
            columns=tuple(body["columns"]),
            given=None if given is None else tuple(given),
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

    `starts` maps each Iceberg source to the position where reading begins. `begun` is True if the rows up to
    there have already been written by the job of the savepoint. `sources` is the order of all sources in
    Spark's offset log. `members` has one entry per INSERT. `sinks` are the written tables that have a
    connector, and `tables` the written Iceberg tables by name. In jobs of earlier releases, `sources` and
    `sinks` are None, and `tables` is empty.

    The flags are False only in jobs of earlier releases. `streams_files` and `streams_ending_rows`: the job
    reads temporary tables of files, and generated rows that end, as streams. `own_operators`: its joins,
    limits and aggregations use Freshtable's own operators. `has_checkpoint`: the checkpoint was created
    together with the job, so if it is missing, it has been lost.
    """

    starts: Mapping[str, Start] = field(default_factory=dict)
    begun: bool = False
    sources: tuple[str, ...] | None = None
    members: tuple[MemberPlan, ...] = ()
    sinks: tuple[SinkTarget, ...] | None = None
    tables: Mapping[str, IcebergTarget] = field(default_factory=dict)
    streams_files: bool = True
    streams_ending_rows: bool = True
    own_operators: bool = True
    has_checkpoint: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "version": PLAN_VERSION,
            "starts": {name: start.to_json() for name, start in self.starts.items()},
            "begun": self.begun,
            "sources": None if self.sources is None else list(self.sources),
            "members": [member.to_json() for member in self.members],
            "sinks": None if self.sinks is None else [target.to_json() for target in self.sinks],
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "streams_files": self.streams_files,
            "streams_ending_rows": self.streams_ending_rows,
            "own_operators": self.own_operators,
            "has_checkpoint": self.has_checkpoint,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StreamPlan:
        sources, sinks = body["sources"], body["sinks"]
        return cls(
            starts={name: Start.from_json(start) for name, start in body["starts"].items()},
            begun=body["begun"],
            sources=None if sources is None else tuple(sources),
            members=tuple(map(MemberPlan.from_json, body["members"])),
            sinks=None if sinks is None else tuple(map(SinkTarget.from_json, sinks)),
            tables={name: IcebergTarget.from_json(table) for name, table in body["tables"].items()},
            streams_files=body["streams_files"],
            streams_ending_rows=body["streams_ending_rows"],
            own_operators=body["own_operators"],
            has_checkpoint=body["has_checkpoint"],
        )

    @classmethod
    def from_pinned(cls, body: Mapping[str, Any]) -> StreamPlan:
        """Return the plan of a version 1 definition, which lacks the keys that later releases added."""
        columns, uuids, keys = body.get("columns", []), body.get("targets", {}), body.get("keys", {})
        given = body.get("given") or [None for _ in columns]
        materialized = body.get("materialized") or [() for _ in columns]
        members = [
            {"columns": each, "given": names, "materialized": key}
            for each, names, key in zip(columns, given, materialized, strict=True)
        ]
        tables = {name: {"uuid": uuid, "keys": keys.get(name, ())} for name, uuid in uuids.items()}
        return cls.from_json(
            {
                "starts": body.get("starts", {}),
                "begun": body.get("begun", False),
                "sources": body.get("sources"),
                "members": members,
                "sinks": body.get("sinks"),
                "tables": tables,
                "streams_files": "temporary_files" in body,
                "streams_ending_rows": "ending_rows" in body,
                "own_operators": body.get("operators", False),
                "has_checkpoint": "checkpoint" in body,
            }
        )
