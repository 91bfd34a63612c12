"""The outbox of notices, within a transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select

from mt_core.registry.rows import instant_text
from mt_core.registry.schema import NOTICES
from mt_core.registry.statements import Statements
from mt_core.tables.registry import Notice


@dataclass(frozen=True, slots=True)
class SqlNotices:
    """Implements `StoredNotices`."""

    statements: Statements

    def put(self, kind: str, body: Mapping[str, Any]) -> None:
        at = instant_text(self.statements.now())
        values = {"kind": kind, "at": at, "body": json.dumps(body, sort_keys=True)}
        self.statements.execute(_PUT, values)

    def oldest(self, limit: int) -> Sequence[Notice]:
        rows = self.statements.execute(_OLDEST, {"most": limit})
        return [
            Notice(
                number=row.number,
                kind=row.kind,
                at=datetime.fromisoformat(row.at),
                body=json.loads(row.body),
            )
            for row in rows
        ]

    def delete(self, numbers: Collection[int]) -> None:
        self.statements.execute(_DELETE, {"numbers": list(numbers)})

    def count(self) -> int:
        count: int = self.statements.execute(_COUNT).scalar_one()
        return count


_PUT = insert(NOTICES)
_OLDEST = select(NOTICES).order_by(NOTICES.c.number).limit(bindparam("most"))
_COUNT = select(func.count()).select_from(NOTICES)
_DELETE = delete(NOTICES).where(NOTICES.c.number.in_(bindparam("numbers", expanding=True)))
