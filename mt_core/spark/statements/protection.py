"""Protection of materialized tables: a Spark statement that would change one is refused before it runs.

The rows, columns and branches of a materialized table belong to its refreshes. Any other writer would break
the fence and the record of sources. Spark has no hook that sees all statements with resolved names, so this
module checks the parsed plan. It collects the tables that a command changes, qualifies their names as the
session would, and looks up whether one of them is a materialized table.

The check is an allow-list: a command that is not known to be harmless is refused on a materialized table.
Nested statements (scripts, EXECUTE IMMEDIATE, IDENTIFIER()) are checked too, and are refused if their object
is known only when they run. State tables, which keep states of materialized tables, are in no registry: they
are known by their names and a property, and only refreshes write them. Statements that begin with a reading
keyword are not checked, so that queries have no additional cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import Namespace, display_name
from mt_core.base.tokens import TokenKind, check_nesting, tokenize
from mt_core.errors import SqlSyntaxError, TableProtected, Unsupported
from mt_core.model.new_names import check_new_name
from mt_core.model.storage import STATE_OF, STATE_TABLE_NAME, is_state_table
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.namespaces import check_namespace
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import (
    active_session,
    java_class,
    java_dataset,
    own_class,
    scala_items,
    state_of,
)
from mt_core.spark.queries.views import Names
from mt_core.spark.statements.iceberg_statements import AlteredView, emptying, state_drops
from mt_core.spark.statements.protected_statements import (
    CHANGES_METADATA,
    CREATES,
    HARMLESS,
    LOSES_COLUMNS,
    NAMING_PROCEDURES,
    NEW_NAME,
    PROCEDURES,
    TABLE_FIELD,
    TAKES_AWAY,
    WRITES_TO_ITS_TABLE,
    Refusal,
    refusal_of,
)

# Statements that begin with one of these do not change tables and are not checked.
_READS = frozenset({"SELECT", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "USE", "SET", "RESET", "("})
# These plans contain the plans of other statements.
_CONTAINERS = frozenset(
    {"CompoundBody", "UnresolvedWith", "Union", "UnresolvedExecuteImmediate", "PlanWithUnresolvedIdentifier"}
)
# Forms of these that only Spark has are not answered by `Names.relations`.
_LISTS = (["SHOW", "TABLES"], ["SHOW", "TABLE"])
_SQL_FUNCTIONS = frozenset({"CreateSQLFunctionCommand", "CreateUserDefinedFunction"})
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_SEPARATOR = "\u0000"


class TableDirectory(Protocol):
    """Looks up materialized tables by name. Thread-safe. Raises RegistryError."""

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        """Return the first of *identifiers* that is a materialized table, or None."""

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        """Return the materialized tables in a namespace and its descendants."""

    def readers(self, identifiers: Sequence[TableIdentifier]) -> Sequence[TableIdentifier]:
        """Return the materialized tables that read one of *identifiers*, which are tables or views."""

    def check_no_stream(self, identifiers: Sequence[TableIdentifier], statement: str) -> None:
        """Raise TableBusy if a streaming job reads or writes a table that *statement* would remove."""

    def check_no_stream_within(self, catalog: str, namespace: Namespace, statement: str) -> None:
        """Raise TableBusy if a streaming job reads or writes a table in a namespace or its descendants."""


class NoTables(TableDirectory):
    """A directory without tables."""

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        return None

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        return ()

    def readers(self, identifiers: Sequence[TableIdentifier]) -> Sequence[TableIdentifier]:
        return ()

    def check_no_stream(self, identifiers: Sequence[TableIdentifier], statement: str) -> None: ...

    def check_no_stream_within(self, catalog: str, namespace: Namespace, statement: str) -> None: ...


def run_protected(
    session: SparkSession,
    text: str,
    tables: TableDirectory,
    adapt: Callable[[Any], Any] = lambda plan: plan,
    connectors: ConnectorSource = no_connectors,
    warn: Callable[[str], object] = lambda _text: None,
) -> DataFrame:
    """Run *text* unless it would change one of *tables*.

    *warn* receives warnings about materialized tables that read an object that the statement removes.
    *adapt* may change the parsed plan of a statement that is not a query, after the names of connector
    tables (*connectors*) have been resolved. The same plan is then run, so that a long INSERT is parsed
    only once. Queries are neither parsed nor checked here.

    Raises TableProtected, DefinitionInvalid for an object in a namespace that does not exist, and Spark's
    errors.
    """
    words = _first_words(text)
    if words and words[0] in _READS and words[:2] != ["SHOW", "CREATE"]:
        # Make only the last of the five calls of PySpark's sql(). The others are for arguments.
        frame = DataFrame(session._jsparkSession.sql(text), session)
        return _without_states(frame) if words[:2] in _LISTS else frame
    with active_session(session):
        parser = state_of(session).sqlParser()
        plan = parser.parsePlan(text)
        check = _Check(session, parser, tables, " ".join(words))
        check.check(plan)
        for warning in check.warnings:
            warn(warning)
        kind = str(plan.productPrefix())
        if kind == "CompoundBody":
            return session.sql(text)
        if kind == "DropNamespace":
            namespace, is_cascade = check.namespace_of(plan), bool(plan.cascade())
            for dropping in state_drops(session, *namespace, is_cascade=is_cascade):
                session.sql(dropping)
            for dropping in emptying(session, *namespace) if is_cascade else ():
                run_protected(session, dropping, tables)
        adapted = adapt(ConnectorNames(session, connectors).adapted(plan))
        instead = (
            None if kind != "AlterViewAs" else AlteredView(plan=plan, text=text, parts=check.target_of(plan))
        )
        if instead is None or not instead.is_computed:
            try:
                return DataFrame(java_dataset(session, adapted), session)
            except SPARK_ERRORS as error:
                if instead is None or not instead.is_refused(error):
                    raise
        return run_protected(session, instead.statement(check.qualified), tables, connectors=connectors)


def _without_states(listed: DataFrame) -> DataFrame:
    """Return the result of SHOW TABLES without state tables."""
    names = own_class(listed.sparkSession, "freshtable.queries.Names")
    return DataFrame(names.without(listed._jdf, STATE_TABLE_NAME), listed.sparkSession)


def check_protected(session: SparkSession, text: str, tables: TableDirectory) -> None:
    """Raise TableProtected if *text*, which is not a query, would change one of *tables*."""
    parser = state_of(session).sqlParser()
    _Check(session, parser, tables, " ".join(_first_words(text))).check(parser.parsePlan(text))


def _first_words(text: str) -> list[str]:
    try:
        significant = (token for token in tokenize(text) if token.kind is not TokenKind.COMMENT)
        return [token.keyword or token.text for token in islice(significant, 2)]
    except SqlSyntaxError:
        return []


class _Check:
    """Checks the parsed plan of one statement, in the session that will run it.

    *words* are the first words of the statement, for messages.
    """

    def __init__(self, session: SparkSession, parser: Any, tables: TableDirectory, words: str) -> None:
        self._session, self._parser, self._tables, self._words = session, parser, tables, words
        self._names, self._in_script = Names(session), False
        self.warnings: list[str] = []

    def check(self, plan: Any) -> None:
        """Raise TableProtected if *plan* would change a materialized table."""
        kind = str(plan.productPrefix())
        if kind in _CONTAINERS:
            for inner in self._inner_plans(plan, kind):
                self.check(inner)
        elif kind == "Call":
            self._call(plan)
        elif kind == "DropNamespace":
            self._drop_namespace(plan)
        elif kind == "CreateNamespace":
            catalog, levels = self.namespace_of(plan)
            check_new_name((catalog, *levels))
        elif kind == "SetCatalogAndNamespace" and self._in_script:
            raise Unsupported(
                "USE cannot be part of a script BEGIN … END; "
                "send it before, or qualify the names in the script."
            )
        elif kind in _SQL_FUNCTIONS and plan.inputParamText().isDefined():
            # Iceberg's Spark extension fails on function parameters without an error message.
            raise Unsupported(
                "A function of a database cannot have parameters: "
                "Iceberg's Spark extension does not support them. Leave the "
                "database out: CREATE FUNCTION name (…) creates a function for all sessions."
            )
        elif kind in CHANGES_METADATA:
            changed = [
                self.qualified(parts) for parts, is_temporary in self._targets(plan, kind) if not is_temporary
            ]
            self._refuse_states(self._words, changed)
        elif kind not in HARMLESS:
            self._command(plan, kind)

    def _refuse(self, refusal: Refusal, names: Iterable[tuple[str, ...]]) -> None:
        """Raise the error of *refusal* if a name is a materialized table, or its branch or metadata table.

        Statements that change such a table are refused for state tables too.
        """
        for full in names:
            identifiers = [*_identifiers(full), *_identifiers(full[:-1])]
            table = self._tables.first_of(identifiers) if identifiers else None
            if table is not None:
                raise refusal.of(table)
            if refusal.changes:
                self._refuse_states(refusal.statement, [full])

    def _refuse_states(self, statement: str, names: Iterable[tuple[str, ...]]) -> None:
        """Raise TableProtected if a name is a state table, or its branch or metadata table."""
        for full in names:
            for name in (full, full[:-1]):
                if len(name) > 2 and is_state_table(name[-1]) and self._names.property_of(name, STATE_OF):
                    raise TableProtected(
                        f"{display_name(name)} keeps a state of a materialized table, and {statement} must "
                        "not change it: refreshes write it, and DROP MATERIALIZED TABLE drops it.",
                        table=display_name(name),
                    )

    # --------------------------------------------------------------------------------------------- statements

    def _inner_plans(self, plan: Any, kind: str) -> Iterator[Any]:
        match kind:
            case "CompoundBody":
                self._in_script = True
                yield from self._script_plans(plan)
            case "Union":
                # FROM … INSERT … INSERT is a flat union of inserts. A nested union combines queries.
                yield from (
                    child for child in scala_items(plan.children()) if str(child.productPrefix()) != "Union"
                )
            case "UnresolvedExecuteImmediate":
                text = self._value(plan.sqlStmtStr(), "EXECUTE IMMEDIATE")
                check_nesting(text)
                yield self._parser.parsePlan(text)
            case "PlanWithUnresolvedIdentifier":
                yield plan.planBuilder().apply(self._identifier_clause(plan), plan.children())
            case _:
                yield plan.child()

    def _script_plans(self, node: Any) -> Iterator[Any]:
        """Yield the plans of all statements in a script BEGIN … END or in one of its blocks."""
        kind = str(node.productPrefix())
        if kind == "SingleStatement":
            yield node.parsedPlan()
            return
        parts = list(scala_items(node.children()))
        if kind == "CompoundBody":
            parts += [handler.body() for handler in scala_items(node.handlers())]
        for part in parts:
            yield from self._script_plans(part)

    def _command(self, plan: Any, kind: str) -> None:
        commands = java_class(self._session, _COMMAND)
        if not (kind.endswith("Statement") or commands.isInstance(plan)):
            return
        targets = list(self._targets(plan, kind))
        changed = [self.qualified(parts) for parts, is_temporary in targets if not is_temporary]
        self._refuse(refusal_of(kind, self._words), changed)
        if kind in CREATES:
            for full in changed:
                check_new_name(full)
                # A script may create the namespace before.
                if not self._in_script:
                    check_namespace(self._session, full)
        self._warn(changed, kind)
        if kind in TAKES_AWAY:
            for full in changed:
                self._tables.check_no_stream(_identifiers(full), f"{TAKES_AWAY[kind]} {display_name(full)}")
        if kind == "RenameTable":
            catalog, *namespace, _ = self.qualified(targets[0][0])
            new = _parts(plan.newName())
            # If the new name has one part, the table stays in the namespace of the old name.
            new_name = (catalog, *(namespace if len(new) == 1 else ()), *new)
            self._refuse(Refusal("ALTER TABLE … RENAME TO", NEW_NAME), [new_name])
            check_new_name(new_name)

    def target_of(self, plan: Any) -> tuple[str, ...]:
        """Return the name, as written, of the table or view that a command changes."""
        return next(parts for parts, _ in self._targets(plan, str(plan.productPrefix())))

    def namespace_of(self, plan: Any) -> tuple[str, tuple[str, ...]]:
        """Return the catalog and namespace levels that a command creates or drops."""
        node = plan.children().head()
        has_clause = str(node.productPrefix()) == "PlanWithUnresolvedIdentifier"
        parts = _parts(self._identifier_clause(node) if has_clause else node.multipartIdentifier())
        catalog, *levels = parts if self._names.is_catalog(parts[0]) else (self._names.current()[0], *parts)
        return catalog, tuple(levels)

    def _warn(self, changed: Iterable[tuple[str, ...]], kind: str) -> None:
        """Add a warning if materialized tables read a table or view that is removed or loses columns."""
        if kind not in TAKES_AWAY and kind not in LOSES_COLUMNS:
            return
        for full in changed:
            readers = ", ".join(map(str, self._tables.readers(_identifiers(full))))
            which = "of them" if kind in TAKES_AWAY else "that read a removed column"
            if readers:
                self.warnings.append(
                    f"{display_name(full)} is read by {readers}; refreshes {which} fail until it exists "
                    "again, or until ALTER MATERIALIZED TABLE … AS changes their query."
                )

    def _targets(self, plan: Any, kind: str) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield the names of the tables that a command changes, and whether each is a temporary view."""
        if kind in TABLE_FIELD:
            yield _parts(plan.table()), False
        elif kind in WRITES_TO_ITS_TABLE:
            yield from self._target(plan.table())
        elif kind == "MergeIntoTable":
            yield from self._target(plan.targetTable())
        elif kind == "CreateTempViewUsing":
            path = plan.options().get("path")
            if "iceberg" in str(plan.provider()).lower() and path.isDefined():
                yield from ((parts, False) for parts in self._names_in(str(path.get())))
        elif plan.children().size():
            yield from self._target(plan.children().head())

    def _target(self, node: Any) -> Iterator[tuple[tuple[str, ...], bool]]:
        kind = str(node.productPrefix())
        match kind:
            case "SubqueryAlias" | "Filter":
                yield from self._target(node.child())
            # Iceberg's parser resolves the views of its catalogs.
            case "ResolvedIdentifier" | "ResolvedV2View":
                identifier = node.identifier()
                yield (
                    (str(node.catalog().name()), *map(str, identifier.namespace()), str(identifier.name())),
                    False,
                )
            case "PlanWithUnresolvedIdentifier":
                yield _parts(self._identifier_clause(node)), False
            case "UnresolvedIdentifier" if not node.allowTemp():
                yield _parts(node.nameParts()), False
            case (
                "UnresolvedIdentifier"
                | "UnresolvedRelation"
                | "UnresolvedTable"
                | "UnresolvedTableOrView"
                | "UnresolvedView"
            ):
                parts = _parts(
                    node.nameParts() if kind == "UnresolvedIdentifier" else node.multipartIdentifier()
                )
                temporary_views = state_of(self._session).catalog()
                yield parts, len(parts) == 1 and bool(temporary_views.getTempView(parts[0]).isDefined())

    def _drop_namespace(self, plan: Any) -> None:
        if not plan.cascade():
            return
        catalog, namespace = self.namespace_of(plan)
        self._tables.check_no_stream_within(
            catalog, namespace, f"DROP NAMESPACE {display_name([catalog, *namespace])} CASCADE"
        )
        tables = self._tables.within(catalog, namespace)
        if tables:
            names = ", ".join(map(str, tables[:5])) + (" …" if len(tables) > 5 else "")
            raise TableProtected(
                f"{display_name([catalog, *namespace])} contains materialized tables: {names}; "
                f"DROP MATERIALIZED TABLE them first, as in DROP MATERIALIZED TABLE {tables[0]}.",
                table=str(tables[0]),
            )

    def _call(self, plan: Any) -> None:
        """Refuse a procedure call if an argument may name a materialized table."""
        name = _parts(plan.procedure().nameParts())
        catalog, namespace = self._names.current()
        if self._names.is_catalog(name[0]) and name[0] != catalog:
            catalog, namespace = name[0], self._names.default_namespace(name[0])
        for argument in scala_items(plan.args()):
            value = (
                argument.value() if str(argument.productPrefix()) == "NamedArgumentExpression" else argument
            )
            names = self._names_in(self._value(value, "CALL"))
            full_names = [self._names.qualify(parts, catalog, namespace) for parts in names]
            if name[-1].lower() in PROCEDURES:
                self._refuse_states(f"CALL {display_name(name)}", full_names)
                continue
            if name[-1].lower() in NAMING_PROCEDURES:
                for full in full_names:
                    check_new_name(full)
            self._refuse(refusal_of("Call", f"CALL {display_name(name)}"), full_names)

    # --------------------------------------------------------------------------------------- names and values

    def qualified(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full name of *parts* in the session."""
        if len(parts) > 2 and self._names.is_catalog(parts[0]):
            return parts
        return self._names.qualify(parts, *self._names.current())

    def _identifier_clause(self, node: Any) -> Any:
        """Return the name in the IDENTIFIER() clause of *node*, as a Scala Seq."""
        return self._parser.parseMultipartIdentifier(self._value(node.identifierExpr(), "IDENTIFIER"))

    def _names_in(self, text: str) -> list[tuple[str, ...]]:
        """Return a list with *text* parsed as a name, or an empty list if it cannot be a name."""
        try:
            return [_parts(self._parser.parseMultipartIdentifier(text))]
        except SPARK_ERRORS:
            return []

    def _value(self, expression: Any, statement: str) -> str:
        """Return the value of a constant expression as text. The expression may use session variables."""
        if str(expression.productPrefix()) == "Literal":
            return str(expression.toString())
        refusal = Unsupported(f"{statement}: its object is known only when it runs; write the name itself.")
        if self._in_script:
            # The expression may use a variable of the script.
            raise refusal
        try:
            [[value]] = self._session.sql(f"SELECT CAST({expression.sql()} AS STRING)").collect()
        except SPARK_ERRORS as cause:
            raise refusal from cause
        return str(value)


def _identifiers(name: tuple[str, ...]) -> list[TableIdentifier]:
    """Return the tables to which a full name may refer.

    Iceberg's JDBC catalogs join the levels of a namespace with dots, so that different names refer to the
    same table.
    """
    if len(name) <= 2:
        return []
    joined = ".".join(name[1:-1])
    namespaces = dict.fromkeys([name[1:-1], tuple(joined.split(".")), (joined,)])
    return [TableIdentifier(name[0], namespace, name[-1]) for namespace in namespaces]


def _parts(sequence: Any) -> tuple[str, ...]:
    """Return the items of a Scala Seq of strings."""
    parts = tuple(str(sequence.mkString(_SEPARATOR)).split(_SEPARATOR))
    # The lengths differ if a name contains the separator.
    return parts if len(parts) == sequence.size() else tuple(map(str, scala_items(sequence)))
