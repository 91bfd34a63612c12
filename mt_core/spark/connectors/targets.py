"""Targets of a stream that have a connector: what is stored of them with the job, and what its statements create."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mt_core.model.stream import TableName
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import ReadStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTarget:
    """A table by the name in its statement, its connector, its quoted name in Spark, and the columns of its primary key."""

    table: TableName
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


def temporary_tables(temporary: Iterable[str]) -> dict[str, CreateConnectorTable]:
    """Return the tables with a connector that the statements *temporary* create, by their names in lower case."""
    facts = (ReadStatement(text).fact for text in temporary)
    return {fact.name[-1].lower(): fact for fact in facts if isinstance(fact, CreateConnectorTable)}
