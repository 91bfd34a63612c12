"""Readers of statements about compiled plans."""

from __future__ import annotations

from mt_core.base.tokens import TokenKind
from mt_core.errors import Unsupported
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.plans import CompilePlan, ExecutePlan, ExplainPlan

_URI = "the path or URI of a plan in quotes"
_WHAT = "INSERT or STATEMENT SET BEGIN"
_NOT_COMPILED = frozenset({"SELECT", "VALUES", "CREATE", "REPLACE", "UPDATE", "DELETE", "MERGE"})
_STATEMENT_SET = ("STATEMENT", "SET", "BEGIN")


def compile_plan(cursor: TokenCursor, text: str, *, execute: bool = False) -> CompilePlan:
    """Read the rest of COMPILE PLAN or COMPILE AND EXECUTE PLAN.

    The second form implies IF NOT EXISTS and does not accept it.
    """
    uri = _uri(cursor)
    if_not_exists = not execute and cursor.accept("IF", "NOT", "EXISTS")
    cursor.expect("FOR")
    first = cursor.peek()
    if first is None:
        raise cursor.error(_WHAT)
    if first.keyword in _NOT_COMPILED:
        raise Unsupported(
            f"{first.keyword} cannot be compiled; COMPILE PLAN accepts INSERT INTO and STATEMENT "
            "SET BEGIN INSERT …; END."
        )
    is_set = all(cursor.word(ahead) == word for ahead, word in enumerate(_STATEMENT_SET))
    if first.keyword not in {"INSERT", "WITH", "FROM"} and not is_set:
        # EXECUTE STATEMENT SET is refused too, as in Flink.
        raise cursor.error(_WHAT)
    return CompilePlan(uri=uri, start=first.start, if_not_exists=if_not_exists, execute=execute)


def execute_plan(cursor: TokenCursor, text: str) -> ExecutePlan:
    """Read the rest of EXECUTE PLAN."""
    uri = _uri(cursor)
    cursor.expect_end()
    return ExecutePlan(uri=uri)


def explain_plan(cursor: TokenCursor) -> ExplainPlan | None:
    """Read the rest of EXPLAIN PLAN 'uri'. For any other EXPLAIN, return None without moving the cursor."""
    token = cursor.peek(1)
    if cursor.word() != "PLAN" or token is None or token.kind is not TokenKind.STRING:
        return None
    cursor.expect("PLAN")
    uri = _uri(cursor)
    cursor.expect_end()
    return ExplainPlan(uri=uri)


def _uri(cursor: TokenCursor) -> str:
    if cursor.word() == "IF":
        raise cursor.refusal(f"expected {_URI}, and IF NOT EXISTS after it")
    if cursor.word() == "FOR":
        raise cursor.refusal(f"expected {_URI}, without FOR before it")
    uri = cursor.string(_URI).strip()
    if not uri:
        raise Unsupported("The path of a plan is empty; write one such as 'file:///plans/orders.json'.")
    return uri
