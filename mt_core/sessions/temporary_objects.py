"""Temporary objects of a session: the statements that created its tables, views and functions,
so that a job can repeat them.
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
    """A statement that created or altered a temporary object; its names are those of `catalog`
    and `namespace`.
    """

    name: str
    is_function: bool
    text: str
    catalog: str
    namespace: Namespace


def concerns_temporary(read: ReadStatement) -> bool:
    """Whether *read* creates, alters or drops what may be a temporary table or view, or drops a function."""
    return _target(read) is not None and not isinstance(read.fact, CreateFunction)


def after(
    objects: Sequence[TemporaryObject], read: ReadStatement, state: SessionState
) -> tuple[TemporaryObject, ...]:
    """Return the temporary objects once *read* has succeeded; *state* is the session's then."""
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
    """Return *objects* with *one* that was created after them, or in the place of one of its name."""
    same = [each for each in objects if (each.name, each.is_function) == (one.name, one.is_function)]
    # In its place: what was created after it may read it.
    place = objects.index(same[0]) if same else len(objects)
    before = tuple(each for each in objects[:place] if each not in same)
    return (*before, one, *(each for each in objects[place:] if each not in same))


def texts(objects: Iterable[TemporaryObject], state: SessionState) -> tuple[str, ...]:
    """Return the statements that create those of *objects* that are still in a session with that *state*,
    in order.

    They begin in the catalog and the namespace of *state*, and end there.
    """
    found, home = list[str](), (state.catalog, state.namespace)
    current = home
    for each in objects:
        if each.name not in (state.functions if each.is_function else state.relations):
            continue
        if (each.catalog, each.namespace) != current:
            current = (each.catalog, each.namespace)
            found.append(use_statement(*current))
        found.append(each.text)
    return tuple(found if current == home else [*found, use_statement(*home)])


def stranger(statements: Sequence[str]) -> int | None:
    """Return the place of the first of *statements* that is none which `texts` returns,
    None if there is no such statement.
    """
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
    """Raise Unsupported for a batch INSERT into *target* if that is a temporary table that only takes
    the rows of streams.
    """
    for each in objects:
        if each.is_function or each.name != target.lower():
            continue
        fact = ReadStatement(each.text).fact
        if isinstance(fact, CreateConnectorTable) and fact.connector in SINKS:
            raise Unsupported(
                f"Table {target}: connector '{fact.connector}' takes the rows of a stream, and this "
                "INSERT reads none as one; "
                "SET 'execution.runtime-mode' = 'streaming' and read a table as a stream."
            )


def use_statement(catalog: str, namespace: Namespace) -> str:
    """Return the USE after which names are looked up in *namespace* of *catalog*."""
    return f"USE {sql_name((catalog, *namespace))}"


def _words(read: ReadStatement) -> list[str]:
    return [token.keyword for token in takewhile(lambda token: token.kind is TokenKind.WORD, read.head)]


def _target(read: ReadStatement) -> tuple[str, bool] | None:
    """Return the name in lower case of the temporary object that *read* is about,
    and whether it is a function.
    """
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
