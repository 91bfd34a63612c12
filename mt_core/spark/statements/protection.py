"""Protection of materialized tables: what would change one past its own statements is refused before Spark runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import MtError, SqlSyntaxError, TableProtected, Unsupported
from mt_core.identifiers import Namespace, display_name
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.jvm_objects import active_session, jvm_of, scala_items, session_state, static_member
from mt_core.spark.queries.views import Names
from mt_core.spark.statements.protected_statements import (
    HARMLESS,
    NEW_NAME,
    PROCEDURES,
    TABLE_FIELD,
    WRITES_TO_ITS_TABLE,
    Refusal,
    refusal_of,
)
from mt_core.tokens import TokenKind, tokenize

# A statement that begins with one of these changes no table, and is run without a look at its plan.
_READS = frozenset({"SELECT", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "USE", "SET", "RESET", "("})
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_SEPARATOR = "\u0000"


class TableDirectory(Protocol):
    """Which names are those of materialized tables. Raises RegistryError; safe from any thread."""

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        """Return the first of *identifiers* that is a materialized table, None if none is."""

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        """Return the materialized tables of a namespace and of those below it."""


class NoTables(TableDirectory):
    """A directory without any table."""

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        return None

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        return ()


def run_protected(session: SparkSession, text: str, tables: TableDirectory) -> DataFrame:
    """Run *text* unless it would change a materialized table; raises TableProtected, and Spark's errors as they are.

    A query costs no more than without. Anything else is parsed here and run as parsed, so that a long INSERT is parsed once.
    """
    words = _first_words(text)
    if words and words[0] in _READS and words[:2] != ["SHOW", "CREATE"]:
        # What PySpark does for a text without arguments, in one call in place of five.
        return DataFrame(session._jsparkSession.sql(text), session)
    with active_session(session):
        parser = session_state(session).sqlParser()
        plan = parser.parsePlan(text)
        _Check(session, parser, tables, " ".join(words)).plan(plan)
        if str(plan.productPrefix()) == "CompoundBody":
            return session.sql(text)
        frame: DataFrame = DataFrame(
            static_member(session, "org.apache.spark.sql.classic.Dataset.ofRows")(session._jsparkSession, plan), session
        )
        return frame


def _first_words(text: str) -> list[str]:
    try:
        significant = (token for token in tokenize(text) if token.kind is not TokenKind.COMMENT)
        return [token.keyword or token.text for token in islice(significant, 2)]
    except SqlSyntaxError:
        return []


class _Check:
    """Looks through the parsed plan of one statement, in the session that will run it."""

    def __init__(self, session: SparkSession, parser: Any, tables: TableDirectory, words: str) -> None:
        self._session, self._parser, self._tables, self._words = session, parser, tables, words
        self._names, self._in_script = Names(session), False
        self._special: Mapping[str, Callable[[Any], None]] = {
            "CompoundBody": self._script,
            "SetCatalogAndNamespace": self._use,
            "UnresolvedWith": lambda plan: self.plan(plan.child()),
            "Union": self._union,
            "UnresolvedExecuteImmediate": self._execute_immediate,
            "PlanWithUnresolvedIdentifier": self._identifier_clause,
            "Call": self._call,
            "DropNamespace": self._drop_namespace,
            "CreateTempViewUsing": self._temporary_view,
        }

    def plan(self, plan: Any) -> None:
        """Raise TableProtected if *plan* would change a materialized table."""
        kind = str(plan.productPrefix())
        special = self._special.get(kind)
        if special is not None:
            special(plan)
        elif kind not in HARMLESS and self._is_command(plan, kind):
            self._command(plan, kind)

    # ------------------------------------------------------------------------------------------------------ statements

    def _is_command(self, plan: Any, kind: str) -> bool:
        classes = jvm_of(self._session).java.lang.Class
        return kind.endswith("Statement") or bool(classes.forName(_COMMAND).isInstance(plan))

    def _union(self, plan: Any) -> None:
        """FROM … INSERT … INSERT is a union of its inserts, one level deep; that of queries may be deep and changes nothing."""
        for child in scala_items(plan.children()):
            if str(child.productPrefix()) != "Union":
                self.plan(child)

    def _script(self, plan: Any) -> None:
        """BEGIN … END: each statement in it is looked at before the first one runs."""
        self._in_script = True
        for node in (*scala_items(plan.children()), *(handler.body() for handler in scala_items(plan.handlers()))):
            self._in_a_script(node)

    def _in_a_script(self, node: Any) -> None:
        match str(node.productPrefix()):
            case "SingleStatement":
                self.plan(node.parsedPlan())
            case "CompoundBody":
                self._script(node)
            case _:
                for child in scala_items(node.children()):
                    self._in_a_script(child)

    def _use(self, plan: Any) -> None:
        if self._in_script:
            raise Unsupported(
                "USE does not go into a script BEGIN … END; send it before, or qualify the names in the script."
            )

    def _execute_immediate(self, plan: Any) -> None:
        self.plan(self._parser.parsePlan(self._value(plan.sqlStmtStr(), "EXECUTE IMMEDIATE")))

    def _identifier_clause(self, plan: Any) -> None:
        parts = self._parser.parseMultipartIdentifier(self._value(plan.identifierExpr(), "IDENTIFIER"))
        self.plan(plan.planBuilder().apply(parts, plan.children()))

    def _command(self, plan: Any, kind: str) -> None:
        for parts, is_temporary in self._targets(plan, kind):
            table = self._table(self._qualified(parts))
            if table is not None and not is_temporary:
                raise refusal_of(kind, self._words).of(table)
        if kind == "RenameTable":
            self._new_name(plan)

    def _targets(self, plan: Any, kind: str) -> Iterator[tuple[Sequence[str], bool]]:
        """Yield the names of tables that a command works on, and whether each is that of a temporary view."""
        if kind in TABLE_FIELD:
            yield _parts(plan.table()), False
        elif kind in WRITES_TO_ITS_TABLE:
            yield from self._name(plan.table())
        elif kind == "MergeIntoTable":
            yield from self._name(plan.targetTable())
        elif plan.children().size():
            yield from self._name(plan.children().head())

    def _name(self, node: Any) -> Iterator[tuple[Sequence[str], bool]]:
        match str(node.productPrefix()):
            case "SubqueryAlias" | "Filter":
                yield from self._name(node.child())
            case "UnresolvedRelation" | "UnresolvedTable" | "UnresolvedTableOrView" | "UnresolvedView":
                parts = _parts(node.multipartIdentifier())
                yield parts, self._is_temporary(parts)
            case "UnresolvedIdentifier":
                parts = _parts(node.nameParts())
                yield parts, bool(node.allowTemp()) and self._is_temporary(parts)
            case "ResolvedIdentifier":
                named = node.identifier()
                yield (str(node.catalog().name()), *map(str, named.namespace()), str(named.name())), False
            case "PlanWithUnresolvedIdentifier":
                yield self._parsed(self._value(node.identifierExpr(), "IDENTIFIER")), False

    def _new_name(self, plan: Any) -> None:
        [(old, _)] = self._name(plan.child())
        old, new = self._qualified(old), _parts(plan.newName())
        same_catalog = (old[0], *(old[1:-1] if len(new) == 1 else ()), *new)
        table = self._table(same_catalog)
        if table is not None:
            raise Refusal("ALTER TABLE … RENAME TO", NEW_NAME).of(table)

    def _drop_namespace(self, plan: Any) -> None:
        if not plan.cascade():
            return
        node = plan.child()
        parts = (
            self._parsed(self._value(node.identifierExpr(), "IDENTIFIER"))
            if str(node.productPrefix()) == "PlanWithUnresolvedIdentifier"
            else _parts(node.multipartIdentifier())
        )
        catalog, *namespace = parts if self._names.is_catalog(parts[0]) else (self._names.current()[0], *parts)
        found = self._tables.within(catalog, tuple(namespace))
        if found:
            named = ", ".join(map(str, found[:5])) + (" …" if len(found) > 5 else "")
            raise TableProtected(
                f"{display_name([catalog, *namespace])} holds materialized tables: {named}; DROP MATERIALIZED TABLE them first, "
                f"as in DROP MATERIALIZED TABLE {found[0]}.",
                table=str(found[0]),
            )

    def _call(self, plan: Any) -> None:
        name = _parts(plan.procedure().nameParts())
        if name[-1].lower() in PROCEDURES:
            return
        catalog, namespace = self._names.current()
        if self._names.is_catalog(name[0]) and name[0] != catalog:
            catalog, namespace = name[0], self._names.default_namespace(name[0])
        for value in self._arguments(plan):
            table = self._table(self._names.qualify(value, catalog, namespace)) if value else None
            if table is not None:
                raise refusal_of("Call", f"CALL {display_name(name)}").of(table)

    def _temporary_view(self, plan: Any) -> None:
        path = plan.options().get("path")
        if "iceberg" not in str(plan.provider()).lower() or not path.isDefined():
            return
        parts = self._maybe_parsed(str(path.get()))
        table = self._table(self._qualified(parts)) if parts else None
        if table is not None:
            raise refusal_of("CreateTempViewUsing", self._words).of(table)

    # ----------------------------------------------------------------------------------------------------------- names

    def _qualified(self, parts: Sequence[str]) -> tuple[str, ...]:
        if len(parts) > 2 and self._names.is_catalog(parts[0]):
            return tuple(parts)
        return self._names.qualify(tuple(parts), *self._names.current())

    def _table(self, full: Sequence[str]) -> TableIdentifier | None:
        """Return the materialized table that a full name means, also by way of a branch or a table of its metadata."""
        names = [name for name in (full, full[:-1]) if len(name) > 2]
        found = [
            TableIdentifier(name[0], namespace, name[-1]) for name in names for namespace in _spellings(name[1:-1])
        ]
        return self._tables.first_of(found) if found else None

    def _is_temporary(self, parts: Sequence[str]) -> bool:
        return len(parts) == 1 and bool(session_state(self._session).catalog().getTempView(parts[0]).isDefined())

    def _parsed(self, text: str) -> tuple[str, ...]:
        return _parts(self._parser.parseMultipartIdentifier(text))

    def _maybe_parsed(self, text: str) -> tuple[str, ...]:
        try:
            return self._parsed(text)
        except SPARK_ERRORS:
            return ()

    # ---------------------------------------------------------------------------------------------------------- values

    def _arguments(self, plan: Any) -> Iterator[tuple[str, ...]]:
        """Yield the names that the arguments of a procedure may be."""
        for argument in scala_items(plan.args()):
            value = argument.value() if str(argument.productPrefix()) == "NamedArgumentExpression" else argument
            yield self._maybe_parsed(self._value(value, "CALL"))

    def _value(self, expression: Any, statement: str) -> str:
        """Return the text of a constant expression, computed in the session: its variables count."""
        if str(expression.productPrefix()) == "Literal":
            return str(expression.toString())
        if self._in_script:
            # A variable may be the script's own.
            raise self._unknown(statement)
        try:
            [[value]] = self._session.sql(f"SELECT CAST({expression.sql()} AS STRING)").collect()
        except SPARK_ERRORS as cause:
            raise self._unknown(statement) from cause
        return str(value)

    def _unknown(self, statement: str) -> MtError:
        return Unsupported(f"{statement}: what it works on cannot be told before it runs; write the name itself.")


def _parts(sequence: Any) -> tuple[str, ...]:
    return tuple(str(sequence.mkString(_SEPARATOR)).split(_SEPARATOR))


def _spellings(namespace: Sequence[str]) -> list[Namespace]:
    """Return the namespaces that Iceberg's jdbc catalogs hold for the same: they join the levels by dots."""
    joined = ".".join(namespace)
    return list(dict.fromkeys([tuple(namespace), tuple(joined.split(".")), (joined,)]))
