"""Statement sets: changes between BEGIN STATEMENT SET and END, or in one EXECUTE STATEMENT SET,
that run as one job.
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
    """Return the statements of the set that *statement* completes, which run in order as one job.

    There are none while a set is open, and in an empty one. Returns None for a statement
    that concerns no set.

    Raises IllegalStatus for BEGIN or END out of turn, Unsupported for a statement that no set can hold.
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
    """Return the members if *statement* is a set, in EXPLAIN with or without EXECUTE;
    None if it is no set.
    """
    words = [token.keyword for token in statement.head]
    for begin in (_EXECUTE, _EXPLAINED):
        if words[: len(begin)] == begin:
            return _inner(statement.sent, len(begin))
    return None


def _inner(text: str, words: int) -> tuple[ReadStatement, ...]:
    """Return the statements between STATEMENT SET BEGIN, of which BEGIN is that many words from the start,
    and END.
    """
    tokens = list(significant(text))
    opening, closing = tokens[words - 1], tokens[-1]
    if closing.keyword != "END":
        raise SqlSyntaxError(
            f"EXECUTE STATEMENT SET must close with END, but ends with {closing.text}",
            line=closing.line,
            column=closing.column,
        )
    # Blanks replace the text before, so that a position in a message is one of the text that the client sent.
    head = "".join(letter if letter == "\n" else " " for letter in text[: opening.end])
    return tuple(
        _checked(ReadStatement(each.text))
        for each in split_statements(head + text[opening.end : closing.start])
    )


def _checked(statement: ReadStatement) -> ReadStatement:
    if statement.type not in MEMBERS:
        raise Unsupported(
            "A statement set takes INSERT and CREATE TABLE … AS only, not "
            f"{statement.type.replace('_', ' ')}; END the set first."
        )
    return statement
