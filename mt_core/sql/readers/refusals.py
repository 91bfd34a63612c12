"""Refusals of Flink's statements that are not supported, each with an alternative."""

from __future__ import annotations

from collections.abc import Callable

from mt_core.errors import Unsupported
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.readers.create import is_view

NO_MODULES = (
    "is not supported, because Spark has no modules: its functions are always available, "
    "and CREATE FUNCTION adds others."
)
NO_REMOVAL = (
    "REMOVE JAR is not supported: Spark cannot unload classes; open a new session, or restart the gateway."
)
NO_REPLACE = "CREATE OR REPLACE MATERIALIZED TABLE is not supported; use CREATE OR ALTER MATERIALIZED TABLE."
NO_TEMPORARY = "TEMPORARY MATERIALIZED TABLE is not supported; leave TEMPORARY out, or use a TEMPORARY VIEW."


def refuse(reason: str, *, views: bool = False) -> Callable[[TokenCursor, str], None]:
    """Return a reader that refuses its statement with *reason*.

    With *views* it leaves MATERIALIZED VIEW to Spark.
    """

    def read(cursor: TokenCursor, text: str) -> None:
        if not (views and is_view(cursor)):
            raise Unsupported(reason)

    return read
