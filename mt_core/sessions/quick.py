"""Quick statements: those that the gateway answers from its own memory, without a thread of their own."""

from __future__ import annotations

from mt_core.errors import EngineUnavailable
from mt_core.sessions.kinds import statement_type
from mt_core.sessions.ports import StatementEngine

_KINDS = frozenset({"SET", "RESET", "SHOW_CATALOGS", "SHOW_JARS", "SHOW_MODULES"})
_LONGEST = 1000


def is_quick(statement: str, engine: StatementEngine) -> bool:
    """Return whether performing *statement* costs less than handing it to another thread; never while Spark starts."""
    return len(statement) <= _LONGEST and statement_type(statement) in _KINDS and _is_ready(engine)


def _is_ready(engine: StatementEngine) -> bool:
    try:
        return engine.wait_ready(0)
    except EngineUnavailable:
        return False
