"""Functions that statements created, stored in the registry and visible to every session, refresh and job.

Spark's temporary functions belong to one session and are lost on a restart. Therefore the registry stores
each function, and this class caches them for the engine. A function cannot be dropped while it is in use.
Direct calls are found by tokenizing the stored queries, job statements and bodies of SQL functions, in the
transaction that drops the function. A call through a view is not in the text of a table's query. It is found
in the source vector of the table's latest refresh. For a table that has not been refreshed, the sources of
its query are determined before the transaction, because that needs Spark. A change of a view is therefore
noticed only after the next refresh.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mt_core.base.identifiers import display_name
from mt_core.base.plural import plural
from mt_core.base.tokens import TokenKind, significant
from mt_core.errors import DefinitionInvalid, EngineUnavailable, IllegalStatus, MtError, RegistryError
from mt_core.model.function import CreatedFunction, FunctionKind, FunctionLanguage
from mt_core.model.table import MaterializedTable
from mt_core.sql.functions import CreateFunction
from mt_core.sql.parser import ReadStatement
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import SourceVector
from mt_core.tables.pages import on_each_page
from mt_core.tables.registry import Registry, Transaction, in_transaction

FunctionSet = Mapping[str, CreatedFunction]
SourcesRead = Sequence[Mapping[str, Any]]
_RECENT = 5
_NAME = {TokenKind.WORD, TokenKind.IDENTIFIER}


def _nothing(_table: MaterializedTable) -> SourceVector:
    return SourceVector(sources=())


class CreatedFunctions:
    """The created functions in the registry, in a write-through cache. Thread-safe.

    Only this gateway writes to the registry. `read_now` returns the current sources of a table that has not
    been refreshed yet.
    """

    def __init__(
        self, registry: Registry, read_now: Callable[[MaterializedTable], SourceVector] = _nothing
    ) -> None:
        self._registry, self._read_now = registry, read_now
        self._lock = threading.Lock()
        self._functions: FunctionSet | None = None

    def all(self) -> FunctionSet:
        """Return the functions by name.

        The object stays the same until a function is created, altered or dropped. Raises RegistryError.
        """
        functions = self._functions
        if functions is None:
            with self._lock:
                functions = self._functions = self._functions or in_transaction(self._registry, _by_name)
        return functions

    def get(self, name: str) -> CreatedFunction | None:
        """Return the created function *name* (lower case), or None if there is none."""
        return self.all().get(name)

    def needed(self) -> Sequence[CreatedFunction]:
        """Return the functions whose code is in use: all created functions, and temporary ones of open jobs.

        Raises RegistryError.
        """
        return in_transaction(self._registry, lambda tx: [*tx.functions.all(), *_temporary(tx)])

    def create(self, function: CreatedFunction) -> None:
        """Store a new function. Raises DefinitionInvalid if its name is taken."""

        def work(tx: Transaction) -> None:
            if function.name in _by_name(tx):
                raise taken(function.name)
            tx.functions.put(function)

        self._change(work)

    def replace(self, function: CreatedFunction) -> None:
        """Store *function*, replacing any function with the same name."""
        self._change(lambda tx: tx.functions.put(function))

    def declare(self, function: CreatedFunction) -> None:
        """Store the declarations of *function*'s module, unless it was replaced or dropped since."""

        def work(tx: Transaction) -> None:
            stored = _by_name(tx).get(function.name)
            if stored is not None and stored == replace(function, declared=stored.declared):
                tx.functions.put(function)

        self._change(work)

    def drop(self, name: str) -> None:
        """Delete a function. Raises IllegalStatus naming the tables, open jobs and functions that use it.

        A call through a view counts if the table's latest refresh made it, or if the table has not been
        refreshed and its query makes it now.
        """
        through_views = [
            f"materialized table {table.identifier} through a view"
            for table, is_known in on_each_page(self._registry, partial(_callers_through_views, name=name))
            if is_known or _is_called_through_a_view(name, self._reads(table))
        ]

        def work(tx: Transaction) -> None:
            users = [*_users(tx, name), *through_views]
            if users:
                views = " If a view has stopped calling it, refresh the table first." if through_views else ""
                raise IllegalStatus(
                    f"Function {name} cannot be dropped: {', '.join(users)} "
                    f"{plural(len(users), 'uses', 'use')} it. DROP or ALTER these first, STOP the jobs, "
                    f"or give the function another body with CREATE OR REPLACE FUNCTION.{views}"
                )
            tx.functions.delete(name)

        self._change(work)

    def _reads(self, table: MaterializedTable) -> SourcesRead:
        try:
            return self._read_now(table).to_json()
        except EngineUnavailable:
            raise
        except MtError:
            # The query is broken; the table's refreshes report that.
            return ()

    def _change(self, work: Callable[[Transaction], None]) -> None:
        def changed(tx: Transaction) -> FunctionSet:
            work(tx)
            return _by_name(tx)

        with self._lock:
            try:
                self._functions = in_transaction(self._registry, changed)
            except RegistryError:
                # The transaction may have committed, so load the functions again on the next call.
                self._functions = None
                raise


def taken(name: str) -> DefinitionInvalid:
    """Return the error of a CREATE FUNCTION whose name is taken."""
    return DefinitionInvalid(
        f"Function {name} exists already; choose another name, DROP FUNCTION {name} first, or CREATE "
        "OR REPLACE FUNCTION."
    )


def calls(text: str, name: str) -> bool:
    """Return whether the SQL in *text* calls the unqualified function *name* (lower case)."""
    if name.replace("`", "``") not in text.lower():
        # Tokenizing thousands of queries would block other transactions for seconds.
        return False
    tokens = list(significant(text))
    return any(
        token.kind in _NAME
        and token.value.lower() == name
        and tokens[index + 1].text == "("
        and (index == 0 or tokens[index - 1].text != ".")
        for index, token in enumerate(tokens[:-1])
    )


def in_place_of(function: CreatedFunction, former: CreatedFunction) -> CreatedFunction:
    """Return *function* of an ALTER FUNCTION, with the properties that it omits taken from *former*."""
    return replace(
        function,
        parameters=former.parameters if function.parameters is None else function.parameters,
        returns=function.returns or former.returns,
        kind=former.kind if function.kind is FunctionKind.SCALAR else function.kind,
        deterministic=former.deterministic if function.deterministic is None else function.deterministic,
        comment=former.comment if function.comment is None else function.comment,
    )


def _by_name(tx: Transaction) -> FunctionSet:
    return {function.name: function for function in tx.functions.all()}


def _temporary(tx: Transaction) -> Iterator[CreatedFunction]:
    for job in tx.jobs.open():
        for text in job.definition.temporary if job.definition else ():
            try:
                fact = ReadStatement(text).fact
            except MtError:
                # The job reports this error when it restarts.
                continue
            if isinstance(fact, CreateFunction):
                yield fact.function


def _callers_through_views(
    tx: Transaction, tables: Iterable[MaterializedTable], name: str
) -> Iterator[tuple[MaterializedTable, bool]]:
    """Yield the tables whose latest refresh called the function through a view, each with True.

    Also yield the tables whose current query has not been refreshed yet, each with False.
    """
    for table in tables:
        if calls(table.definition.expanded_query, name):
            continue
        fingerprint = fingerprint_of(table.definition)
        runs = tx.runs.newest(table_id=table.table_id, limit=_RECENT)
        vector = next((run.vector for run in runs if run.vector and run.fingerprint == fingerprint), None)
        if vector is None or _is_called_through_a_view(name, vector):
            yield table, vector is not None


def _is_called_through_a_view(name: str, sources: SourcesRead) -> bool:
    read = {(source["kind"], source["name"]) for source in sources}
    return ("function", display_name((name,))) in read and any(kind == "view" for kind, _ in read)


def _users(tx: Transaction, name: str) -> Iterator[str]:
    for table in tx.tables.page():
        if calls(table.definition.expanded_query, name):
            yield f"materialized table {table.identifier}"
    for job in tx.jobs.open():
        if any(calls(member.text, name) for member in (job.definition.members if job.definition else ())):
            yield f"job {job.job_id}"
    for function in tx.functions.all():
        if function.language is FunctionLanguage.SQL and function.name != name and calls(function.body, name):
            yield f"function {function.name}"
