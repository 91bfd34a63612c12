"""Properties of a session as SET and RESET change and show them."""

from __future__ import annotations

from mt_core.secrets import masked
from mt_core.sessions.operations.operation import OperationResult
from mt_core.sessions.properties.property_values import check_set
from mt_core.sessions.session import Session
from mt_core.sessions.statements import answers
from mt_core.sql.statements import SetProperty


def set_property(session: Session, statement: SetProperty) -> OperationResult:
    """SET key = value, or the properties that SET shows; raises RequestInvalid, Unsupported for what cannot be meant."""
    if statement.key is not None and statement.value is not None:
        check_set(statement.key, statement.value)
        session.set_property(statement.key, statement.value)
        return answers.DONE
    shown = masked(session.properties)
    if statement.key is not None:
        shown = {key: value for key, value in shown.items() if key == statement.key}
    return answers.property_rows(shown)


def reset_property(session: Session, key: str | None) -> OperationResult:
    """RESET *key*, or all properties."""
    session.reset_property(key)
    return answers.DONE
