"""Created functions: those that statements created, kept in the registry and seen by every session,
refresh and job.
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
    """Reads the registry once and writes through: a registry has one gateway. Thread-safe.

    `read_now` says what the query of a table reads that no refresh has read yet.
    """

    def __init__(
        self, registry: Registry, read_now: Callable[[MaterializedTable], SourceVector] = _nothing
    ) -> None:
        self._registry, self._read_now = registry, read_now
        self._lock = threading.Lock()
        self._functions: FunctionSet | None = None

    def all(self) -> FunctionSet:
        """Return the functions by their names; the same object until one is created, altered or dropped.

        Raises RegistryError.
        """
        functions = self._functions
        if functions is None:
            with self._lock:
                functions = self._functions = self._functions or in_transaction(self._registry, _by_name)
        return functions

    def get(self, name: str) -> CreatedFunction | None:
        """Return the function *name*, in lower case; None if no statement has created it."""
        return self.all().get(name)

    def needed(self) -> Sequence[CreatedFunction]:
        """Return the functions whose code is needed: these, and the temporary ones of jobs that run.

        Raises RegistryError.
        """
        return in_transaction(self._registry, lambda tx: [*tx.functions.all(), *_temporary(tx)])

    def create(self, function: CreatedFunction) -> None:
        """Store a new function; raises DefinitionInvalid if its name is taken."""

        def work(tx: Transaction) -> None:
            if function.name in _by_name(tx):
                raise taken(function.name)
            tx.functions.put(function)

        self._change(work)

    def replace(self, function: CreatedFunction) -> None:
        """Store *function* in place of one of its name, if there is one."""
        self._change(lambda tx: tx.functions.put(function))

    def declare(self, function: CreatedFunction) -> None:
        """Store what the module of *function* declares, unless the function has been replaced
        or dropped meanwhile.
        """

        def work(tx: Transaction) -> None:
            stored = _by_name(tx).get(function.name)
            if stored is not None and stored == replace(function, declared=stored.declared):
                tx.functions.put(function)

        self._change(work)

    def drop(self, name: str) -> None:
        """Delete a function; raises IllegalStatus naming what uses it: materialized tables, jobs that run,
        other functions.

        What a table calls through views is what its latest refresh found;
        before the first one, what its query reads now.
        """
        through_views = [
            f"materialized table {table.identifier} through a view"
            for table, is_known in on_each_page(self._registry, partial(_callers_through_views, name=name))
            if is_known or _is_called_through_a_view(name, self._reads(table))
        ]

        def work(tx: Transaction) -> None:
            users = [*_users(tx, name), *through_views]
            if users:
                views = (
                    " A view that no longer calls it counts from the next refresh on."
                    if through_views
                    else ""
                )
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
            # Its query can read nothing, and refreshes of it say so.
            return ()

    def _change(self, work: Callable[[Transaction], None]) -> None:
        def changed(tx: Transaction) -> FunctionSet:
            work(tx)
            return _by_name(tx)

        with self._lock:
            try:
                self._functions = in_transaction(self._registry, changed)
            except RegistryError:
                # The transaction may have happened: read again.
                self._functions = None
                raise


def taken(name: str) -> DefinitionInvalid:
    """Return the error of a CREATE FUNCTION whose name is taken."""
    return DefinitionInvalid(
        f"Function {name} exists already; choose another name, DROP FUNCTION {name} first, or CREATE "
        "OR REPLACE FUNCTION."
    )


def calls(text: str, name: str) -> bool:
    """Whether *text*, in SQL, calls a function *name*, in lower case, that has no database before it."""
    if name.replace("`", "``") not in text.lower():
        # To split thousands of queries into tokens would keep other transactions waiting for seconds.
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
    """Return *function*, which ALTER gives in place of *former*, with what it does not say itself."""
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
                # The job says so when it begins again.
                continue
            if isinstance(fact, CreateFunction):
                yield fact.function


def _callers_through_views(
    tx: Transaction, tables: Iterable[MaterializedTable], name: str
) -> Iterator[tuple[MaterializedTable, bool]]:
    """Yield the tables whose latest refresh found that they call the function through a view and, with False,
    those without one.
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
