"""Result sets: columns with Flink's logical types, rows in the JSON form of its REST API, and row kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

from mt_core.errors import MtError

STRING_LENGTH = 2147483647
_PARTS = ("element", "key", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalType:
    """A Flink logical type: its root, its nullability and the remaining members of its JSON."""

    root: str
    nullable: bool = True
    extras: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        if self.root == "NULL":
            # NULL is the only type without a nullability.
            return {"type": self.root}
        return {"type": self.root, "nullable": self.nullable, **self.extras}

    @property
    def parts(self) -> tuple[tuple[str, LogicalType], ...]:
        """The nested types by name.

        An array or multiset has `element`, a map has `key` and `value`, and a row has its fields.
        """
        if self.root == "ROW":
            members = [(part["name"], part["fieldType"]) for part in self.extras["fields"]]
        else:
            members = [(name, self.extras[f"{name}Type"]) for name in _PARTS if f"{name}Type" in self.extras]
        return tuple((name, LogicalType.from_json(body)) for name, body in members)

    def contains(self, root: str) -> bool:
        """Return whether this type or any type nested in it has the root *root*."""
        return self.root == root or any(part.contains(root) for _, part in self.parts)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> LogicalType:
        extras = {key: value for key, value in body.items() if key not in {"type", "nullable"}}
        return cls(root=body["type"], nullable=body.get("nullable", True), extras=extras)


STRING = LogicalType(root="VARCHAR", extras={"length": STRING_LENGTH})
BOOLEAN = LogicalType(root="BOOLEAN")
INT = LogicalType(root="INTEGER")
BIGINT = LogicalType(root="BIGINT")
DOUBLE = LogicalType(root="DOUBLE")
STRING_MAP = LogicalType(
    root="MAP",
    extras={
        "keyType": {"type": "VARCHAR", "nullable": True, "length": STRING_LENGTH},
        "valueType": {"type": "VARCHAR", "nullable": True, "length": STRING_LENGTH},
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a result: its name, its type and a comment."""

    name: str
    type: LogicalType = STRING
    comment: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "logicalType": self.type.to_json(), "comment": self.comment}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Column:
        return cls(
            name=body["name"], type=LogicalType.from_json(body["logicalType"]), comment=body.get("comment")
        )


class RowKind(Enum):
    """The kind of a changelog row, with Flink's names and signs."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"

    @property
    def code(self) -> int:
        """Flink's number for this kind, which is stored in the last column of a changelog row."""
        return _KINDS.index(self)

    @property
    def adds(self) -> bool:
        """Whether this kind adds a row to the result; the other kinds remove a row."""
        return self in {RowKind.INSERT, RowKind.UPDATE_AFTER}

    @classmethod
    def of(cls, code: int) -> RowKind:
        """Return the kind with Flink's number *code*."""
        return _KINDS[code]


_KINDS = tuple(RowKind)
ROW_KIND = "__row_kind"
"""The name of a changelog's last column, which contains the codes of its rows."""


class PageForm(StrEnum):
    """The encoding of a page of rows: a JSON array of row objects, or an Arrow IPC stream."""

    JSON = "JSON"
    ARROW = "ARROW"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSet:
    """Columns and rows in memory, for the results of statements such as SHOW."""

    columns: Sequence[Column]
    rows: Sequence[list[Any]]

    @property
    def running(self) -> bool:
        """Always False: no more rows follow."""
        return False

    @property
    def endless(self) -> bool:
        return False

    @property
    def changelog(self) -> bool:
        """Always False: no row retracts an earlier one."""
        return False

    def available(self, start: int, size: int, timeout_s: float) -> int:
        return len(self.rows[start : start + size])

    def page(self, start: int, size: int) -> list[list[Any]]:
        return list(self.rows[start : start + size])

    def kinds(self, start: int, size: int) -> list[RowKind]:
        return [RowKind.INSERT for _ in self.page(start, size)]

    def encoded(self, start: int, size: int, form: PageForm) -> None:
        """Return None: these rows have no encoded form."""

    def release(self, before: int) -> None:
        """Do nothing: all rows stay in memory."""

    def on_end(self, callback: Callable[[MtError | None], None]) -> None:
        callback(None)

    def abort(self, error: MtError) -> None:
        """Do nothing: no work produces these rows."""

    def close(self) -> None:
        """Do nothing: the rows own no resource."""


OK = RowSet(columns=(Column(name="result"),), rows=[["OK"]])
