"""Temporary objects of a session: the statements that created its temporary tables, views and functions.

A detached job repeats these statements in its own engine session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from mt_core.base.identifiers import Namespace, sql_name
from mt_core.base.tokens import TokenKind
from mt_core.errors import Unsupported
from mt_core.sessions.ports import SessionState
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.connectors.kinds import SINKS
from mt_core.sql.functions import CreateFunction
from mt_core.sql.parser import ReadStatement

_KINDS = {"VIEW": False, "TABLE": False, "FUNCTION": True}
_TEMPORARY = ("TEMPORARY", "TEMP")
_IF_NOT_EXISTS = "IF NOT EXISTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryObject:
    """A statement that created or altered a temporary object, and the namespace that resolves its names."""

    name: str
    is_function: bool
    text: str
    catalog: str
    namespace: Namespace


def concerns_temporary(read: ReadStatement) -> bool:
    """Return whether *read* may change the session's temporary tables and views, or drop a function."""
    return _target(read) is not None and not isinstance(read.fact, CreateFunction)


def after(
    objects: Sequence[TemporaryObject], read: ReadStatement, state: SessionState
) -> tuple[TemporaryObject, ...]:
    """Return the temporary objects after *read* has succeeded and left the session in *state*."""
    target = _target(read)
    if target is None:
        return tuple(objects)
    name, is_function = target
    same = [each for each in objects if (each.name, each.is_function) == target]
    others = tuple(each for each in objects if each not in same)
    if name not in (state.functions if is_function else state.relations):
        return others
    one = TemporaryObject(
        name=name,
        is_function=is_function,
        text=read.written,
        catalog=state.catalog,
        namespace=state.namespace,
    )
    match _words(read)[0]:
        case "CREATE" if same and _IF_NOT_EXISTS in " ".join(_words(read)):
            return tuple(objects)
        case "CREATE":
            return created(objects, one)
        case "ALTER":
            return (*objects, one)
        case _:
            return others


def created(objects: Sequence[TemporaryObject], one: TemporaryObject) -> tuple[TemporaryObject, ...]:
    """Return *objects* with *one* appended, or in place of the object with the same name."""
    same = [each for each in objects if (each.name, each.is_function) == (one.name, one.is_function)]
    # Keep the position, because later objects may refer to this one.
    place = objects.index(same[0]) if same else len(objects)
    before = tuple(each for each in objects[:place] if each not in same)
    return (*before, one, *(each for each in objects[place:] if each not in same))


def texts(objects: Iterable[TemporaryObject], state: SessionState) -> tuple[str, ...]:
    """Return the statements that recreate those *objects* that still exist in *state*, in order.

    They start and end in the current catalog and namespace of *state*.
    """
    statements, home = list[str](), (state.catalog, state.namespace)
    current = home
    for each in objects:
        if each.name not in (state.functions if each.is_function else state.relations):
            continue
        if (each.catalog, each.namespace) != current:
            current = (each.catalog, each.namespace)
            statements.append(use_statement(*current))
        statements.append(each.text)
    return tuple(statements if current == home else [*statements, use_statement(*home)])


def first_unexpected(statements: Sequence[str]) -> int | None:
    """Return the index of the first statement that `texts` cannot have returned, or None."""
    created = set[tuple[str, bool]]()
    for place, text in enumerate(statements):
        read = ReadStatement(text)
        target, words = _target(read), _words(read)
        match words[0] if words else "":
            case "CREATE" if target is not None:
                created.add(target)
            case "ALTER" if target in created:
                pass
            case "USE":
                pass
            case _:
                return place
    return None


def check_writable(objects: Iterable[TemporaryObject], target: str) -> None:
    """Raise Unsupported for a batch INSERT into a temporary table that only streams can write to."""
    for each in objects:
        if each.is_function or each.name != target.lower():
            continue
        fact = ReadStatement(each.text).fact
        if isinstance(fact, CreateConnectorTable) and fact.connector in SINKS:
            raise Unsupported(
                f"Table {target}: connector '{fact.connector}' can only be written by a stream, and this "
                "INSERT does not read one; "
                "SET 'execution.runtime-mode' = 'streaming' and read a table as a stream."
            )


def use_statement(catalog: str, namespace: Namespace) -> str:
    """Return the USE statement that makes *namespace* of *catalog* current."""
    return f"USE {sql_name((catalog, *namespace))}"


def _words(read: ReadStatement) -> list[str]:
    return [token.keyword for token in takewhile(lambda token: token.kind is TokenKind.WORD, read.head)]


def _target(read: ReadStatement) -> tuple[str, bool] | None:
    """Return the lower-case name of the temporary object in *read* and whether it is a function."""
    words = _words(read)
    verb = words[0] if words else ""
    kind = next((place for place, word in enumerate(words) if word in _KINDS), None)
    if kind is None or verb not in {"CREATE", "ALTER", "DROP"} or "GLOBAL" in words[:kind]:
        return None
    if verb == "CREATE" and not any(word in _TEMPORARY for word in words[:kind]):
        return None
    rest = read.head[kind + 1 :]
    while rest and rest[0].keyword in {"IF", "NOT", "EXISTS"}:
        rest = rest[1:]
    is_name = rest and rest[0].kind in {TokenKind.WORD, TokenKind.IDENTIFIER}
    if not is_name or (len(rest) > 1 and rest[1].text == "."):
        return None
    return rest[0].value.lower(), _KINDS[words[kind]]
