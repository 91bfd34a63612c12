"""Responses about an operation: its progress, and the pages of its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mt_core.base.rowset import Column, RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of an operation: its tasks, and the number of rows they have read.

    If `total` is 0, only `message` is known.
    """

    done: int
    total: int
    message: str
    rows_read: int = 0

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Progress:
        return cls(
            done=body.get("tasksDone", 0),
            total=body.get("tasksTotal", 0),
            rows_read=body.get("rowsRead", 0),
            message=body.get("message", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """A page of a result.

    `run` describes the run of a refresh, or is None for other statements. `affected_rows` is the number of
    rows that a change wrote, or None if unknown. `kinds` are the row kinds of a changelog, or None if the
    result only adds rows.
    """

    columns: tuple[Column, ...]
    rows: list[list[Any]]
    is_query: bool
    has_content: bool
    job_id: str | None = None
    warnings: tuple[str, ...] = ()
    run: Mapping[str, Any] | None = None
    affected_rows: int | None = None
    kinds: list[RowKind] | None = None
    is_last: bool = field(default=True, compare=False)

    @classmethod
    def from_json(cls, body: Mapping[str, Any], affected_rows: str | None = None) -> ResultPage:
        return cls(
            columns=tuple(Column.from_json(column) for column in body["results"]["columns"]),
            rows=[row["fields"] for row in body["results"]["data"]],
            kinds=_kinds(body),
            is_query=body["isQueryResult"],
            has_content=body["resultKind"] == "SUCCESS_WITH_CONTENT",
            job_id=body.get("jobID"),
            warnings=tuple(body.get("warnings", ())),
            run=body.get("run"),
            affected_rows=None if affected_rows is None else int(affected_rows),
            is_last=body.get("nextResultUri") is None,
        )


def _kinds(body: Mapping[str, Any]) -> list[RowKind] | None:
    """Return the row kinds of a changelog page, or None for another page.

    Flink's gateway does not mark changelogs.
    """
    names = [row["kind"] for row in body["results"]["data"]]
    is_changelog = body.get("changelog", False) or any(name != RowKind.INSERT.name for name in names)
    return [RowKind[name] for name in names] if is_changelog else None
