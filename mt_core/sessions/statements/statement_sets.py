"""Statement sets: statements that run as one job.

They stand between BEGIN STATEMENT SET and END, or in EXECUTE STATEMENT SET.
"""

from __future__ import annotations

from mt_core.base.tokens import significant, split_statements
from mt_core.errors import IllegalStatus, SqlSyntaxError, Unsupported
from mt_core.sessions.session import Session
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import CREATE_TABLE_AS, INSERT

MEMBERS = (INSERT, CREATE_TABLE_AS)
_EXPLAINED = ["STATEMENT", "SET", "BEGIN"]
_BEGIN, _EXECUTE = ["BEGIN", "STATEMENT", "SET"], ["EXECUTE", "STATEMENT", "SET", "BEGIN"]


def collect(session: Session, statement: ReadStatement) -> tuple[ReadStatement, ...] | None:
    """Return the members of the statement set that *statement* completes, to run in order as one job.

    The result is empty while the set is open and None for a statement outside of any set. Raises
    IllegalStatus for a BEGIN inside a set or an END outside of one. Raises Unsupported for a statement that a
    set cannot contain.
    """
    text, words = statement.written, [token.keyword for token in statement.head]
    members = session.statement_set
    if words == _BEGIN:
        if members is not None:
            raise IllegalStatus("BEGIN STATEMENT SET: a statement set is open already; END it first.")
        session.statement_set = ()
        return ()
    if words == ["END"]:
        if members is None:
            raise IllegalStatus("END: no statement set is open; begin one with BEGIN STATEMENT SET.")
        session.statement_set = None
        return members
    if members is not None:
        session.statement_set = (*members, _checked(statement))
        return ()
    if words[: len(_EXECUTE)] == _EXECUTE:
        return _inner(text, len(_EXECUTE))
    return None


def members_of(statement: ReadStatement) -> tuple[ReadStatement, ...] | None:
    """Return the members of a statement set, with or without EXECUTE, or None for any other statement."""
    words = [token.keyword for token in statement.head]
    for begin in (_EXECUTE, _EXPLAINED):
        if words[: len(begin)] == begin:
            return _inner(statement.sent, len(begin))
    return None


def _inner(text: str, words: int) -> tuple[ReadStatement, ...]:
    """Return the statements between BEGIN, which is word number *words* of *text*, and END."""
    tokens = list(significant(text))
    opening, closing = tokens[words - 1], tokens[-1]
    if closing.keyword != "END":
        raise SqlSyntaxError(
            f"EXECUTE STATEMENT SET must close with END, but ends with {closing.text}",
            line=closing.line,
            column=closing.column,
        )
    # Replace the text before BEGIN with blanks, so that error positions refer to the client's text.
    head = "".join(letter if letter == "\n" else " " for letter in text[: opening.end])
    return tuple(
        _checked(ReadStatement(each.text))
        for each in split_statements(head + text[opening.end : closing.start])
    )


def _checked(statement: ReadStatement) -> ReadStatement:
    if statement.type not in MEMBERS:
        raise Unsupported(
            "A statement set may contain INSERT and CREATE TABLE … AS only, not "
            f"{statement.type.replace('_', ' ')}; END the set first."
        )
    return statement
