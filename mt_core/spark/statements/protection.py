"""Protection of materialized tables: refuses each statement of Spark's that would change one,
before Spark runs it.
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
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.namespaces import check_namespace
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import active_session, java_class, java_dataset, scala_items, state_of
from mt_core.spark.queries.views import Names
from mt_core.spark.statements.iceberg_statements import AlteredView, emptying
from mt_core.spark.statements.protected_statements import (
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

# A statement that begins with one of these changes no table, and runs without a check of its plan.
_READS = frozenset({"SELECT", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "USE", "SET", "RESET", "("})
# These plans have the plans of other statements inside.
_CONTAINERS = frozenset(
    {"CompoundBody", "UnresolvedWith", "Union", "UnresolvedExecuteImmediate", "PlanWithUnresolvedIdentifier"}
)
_SQL_FUNCTIONS = frozenset({"CreateSQLFunctionCommand", "CreateUserDefinedFunction"})
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_SEPARATOR = "\u0000"


class TableDirectory(Protocol):
    """Finds materialized tables by name. Raises RegistryError; safe from any thread."""

    def first_of(self, identifiers: Sequence[TableIdentifier]) -> TableIdentifier | None:
        """Return the first of *identifiers* that is a materialized table, None if none is."""

    def within(self, catalog: str, namespace: Namespace) -> Sequence[TableIdentifier]:
        """Return the materialized tables of a namespace and of those below it."""

    def readers(self, identifiers: Sequence[TableIdentifier]) -> Sequence[TableIdentifier]:
        """Return the materialized tables that read one of these tables or views."""

    def check_no_stream(self, identifiers: Sequence[TableIdentifier], statement: str) -> None:
        """Raise TableBusy if a streaming job reads or writes one of these tables,
        which *statement* would take away.
        """

    def check_no_stream_within(self, catalog: str, namespace: Namespace, statement: str) -> None:
        """Raise TableBusy if a streaming job reads or writes a table of a namespace, or of one below it."""


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
    """Run *text* unless it would change one of *tables*; raises TableProtected, and Spark's own errors.

    *warn* gets what to say once it has run: materialized tables read what it takes away.

    Raises DefinitionInvalid for what would be created in a namespace that is not there.

    What runs of a statement that is no query is the plan that *adapt* makes of its own,
    with the tables of *connectors*.

    A query costs no more than without. Any other statement is parsed here and run from its plan,
    so that a long INSERT is parsed once.
    """
    words = _first_words(text)
    if words and words[0] in _READS and words[:2] != ["SHOW", "CREATE"]:
        # The last of the five calls that PySpark makes; the others are for arguments,
        # which the text does not have.
        return DataFrame(session._jsparkSession.sql(text), session)
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
        if kind == "DropNamespace" and plan.cascade():
            for dropping in emptying(session, *check.namespace_of(plan)):
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


def check_protected(session: SparkSession, text: str, tables: TableDirectory) -> None:
    """Raise TableProtected if *text*, which is no query, would change one of *tables*; nothing runs."""
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

    *words* are the statement's first ones.
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
            # Iceberg's extension of Spark reads no parameters of functions: an error without a word.
            raise Unsupported(
                "A function of a database cannot have parameters: "
                "Iceberg's extension of Spark does not read them. Leave the "
                "database out: CREATE FUNCTION name (…) keeps a function for all sessions."
            )
        elif kind not in HARMLESS:
            self._command(plan, kind)

    def _refuse(self, refusal: Refusal, names: Iterable[tuple[str, ...]]) -> None:
        """Raise the error of *refusal* if a full name is a materialized table's, or one of its branches
        or metadata tables.
        """
        for full in names:
            identifiers = [*_identifiers(full), *_identifiers(full[:-1])]
            table = self._tables.first_of(identifiers) if identifiers else None
            if table is not None:
                raise refusal.of(table)

    # --------------------------------------------------------------------------------------------- statements

    def _inner_plans(self, plan: Any, kind: str) -> Iterator[Any]:
        match kind:
            case "CompoundBody":
                self._in_script = True
                yield from self._script_plans(plan)
            case "Union":
                # FROM … INSERT … INSERT is a union of its inserts, one level deep;
                # a deeper one is of queries.
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
        """Yield the plans of all statements in a script BEGIN … END, or in a part of one."""
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
                # A script may create the namespace first.
                if not self._in_script:
                    check_namespace(self._session, full)
        self._warn(changed, kind)
        if kind in TAKES_AWAY:
            for full in changed:
                self._tables.check_no_stream(_identifiers(full), f"{TAKES_AWAY[kind]} {display_name(full)}")
        if kind == "RenameTable":
            catalog, *namespace, _ = self.qualified(targets[0][0])
            new = _parts(plan.newName())
            # A new name of one part stays in the namespace of the old one.
            new_name = (catalog, *(namespace if len(new) == 1 else ()), *new)
            self._refuse(Refusal("ALTER TABLE … RENAME TO", NEW_NAME), [new_name])
            check_new_name(new_name)

    def target_of(self, plan: Any) -> tuple[str, ...]:
        """Return the parts of the name of the table or view that a command changes, as it is written."""
        return next(parts for parts, _ in self._targets(plan, str(plan.productPrefix())))

    def namespace_of(self, plan: Any) -> tuple[str, tuple[str, ...]]:
        """Return the catalog and the levels of the namespace that a command creates or drops."""
        node = plan.children().head()
        has_clause = str(node.productPrefix()) == "PlanWithUnresolvedIdentifier"
        parts = _parts(self._identifier_clause(node) if has_clause else node.multipartIdentifier())
        catalog, *levels = parts if self._names.is_catalog(parts[0]) else (self._names.current()[0], *parts)
        return catalog, tuple(levels)

    def _warn(self, changed: Iterable[tuple[str, ...]], kind: str) -> None:
        """Note which materialized tables read a table or view that goes, or that loses columns."""
        if kind not in TAKES_AWAY and kind not in LOSES_COLUMNS:
            return
        for full in changed:
            readers = ", ".join(map(str, self._tables.readers(_identifiers(full))))
            what = "of those" if kind in TAKES_AWAY else "of those whose queries read a column that is gone"
            if readers:
                self.warnings.append(
                    f"{display_name(full)} is read by {readers}; refreshes {what} fail until it is there "
                    "again, or until ALTER MATERIALIZED TABLE … AS gives the table another query."
                )

    def _targets(self, plan: Any, kind: str) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield the names of tables that a command changes, and whether each is that of a temporary view."""
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
                f"{display_name([catalog, *namespace])} holds materialized tables: {names}; "
                f"DROP MATERIALIZED TABLE them first, as in DROP MATERIALIZED TABLE {tables[0]}.",
                table=str(tables[0]),
            )

    def _call(self, plan: Any) -> None:
        """Refuse the call of a procedure if an argument may be the name of a materialized table."""
        name = _parts(plan.procedure().nameParts())
        if name[-1].lower() in PROCEDURES:
            return
        catalog, namespace = self._names.current()
        if self._names.is_catalog(name[0]) and name[0] != catalog:
            catalog, namespace = name[0], self._names.default_namespace(name[0])
        for argument in scala_items(plan.args()):
            value = (
                argument.value() if str(argument.productPrefix()) == "NamedArgumentExpression" else argument
            )
            names = self._names_in(self._value(value, "CALL"))
            full_names = [self._names.qualify(parts, catalog, namespace) for parts in names]
            if name[-1].lower() in NAMING_PROCEDURES:
                for full in full_names:
                    check_new_name(full)
            self._refuse(refusal_of("Call", f"CALL {display_name(name)}"), full_names)

    # --------------------------------------------------------------------------------------- names and values

    def qualified(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full name that *parts* mean in the session."""
        if len(parts) > 2 and self._names.is_catalog(parts[0]):
            return parts
        return self._names.qualify(parts, *self._names.current())

    def _identifier_clause(self, node: Any) -> Any:
        """Return the Scala Seq of the name that IDENTIFIER() gives to *node*."""
        return self._parser.parseMultipartIdentifier(self._value(node.identifierExpr(), "IDENTIFIER"))

    def _names_in(self, text: str) -> list[tuple[str, ...]]:
        """Return the name that *text* may be; an empty list for text that cannot be one."""
        try:
            return [_parts(self._parser.parseMultipartIdentifier(text))]
        except SPARK_ERRORS:
            return []

    def _value(self, expression: Any, statement: str) -> str:
        """Return the text of a constant expression, computed in the session: its variables count."""
        if str(expression.productPrefix()) == "Literal":
            return str(expression.toString())
        refusal = Unsupported(f"{statement}: its object is known only when it runs; write the name itself.")
        if self._in_script:
            # A variable may be the script's own.
            raise refusal
        try:
            [[value]] = self._session.sql(f"SELECT CAST({expression.sql()} AS STRING)").collect()
        except SPARK_ERRORS as cause:
            raise refusal from cause
        return str(value)


def _identifiers(name: tuple[str, ...]) -> list[TableIdentifier]:
    """Return the tables that a full name may mean.

    Iceberg's jdbc catalogs join the levels of a namespace by dots, so these are one namespace to them.
    """
    if len(name) <= 2:
        return []
    joined = ".".join(name[1:-1])
    namespaces = dict.fromkeys([name[1:-1], tuple(joined.split(".")), (joined,)])
    return [TableIdentifier(name[0], namespace, name[-1]) for namespace in namespaces]


def _parts(sequence: Any) -> tuple[str, ...]:
    """Return the items of a Scala Seq of strings."""
    parts = tuple(str(sequence.mkString(_SEPARATOR)).split(_SEPARATOR))
    # Fewer if a name has the separator in it.
    return parts if len(parts) == sequence.size() else tuple(map(str, scala_items(sequence)))
