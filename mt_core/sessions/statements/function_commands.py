"""Commands on functions: CREATE, ALTER, DROP, DESCRIBE and SHOW CREATE FUNCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mt_core.errors import DefinitionInvalid, MtError
from mt_core.identifiers import quote
from mt_core.model.function import CreatedFunction, show_create_function
from mt_core.rowset import Column, RowSet
from mt_core.sessions.operations.operation import DONE, OperationResult, content
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.statements.listings import MOST, CatalogRequest, names_only
from mt_core.sql import functions as sql
from mt_core.sql.parser import ReadStatement
from mt_core.tables.created_functions import CreatedFunctions, in_place_of, taken

_INFO = (Column(name="info name"), Column(name="info value"))


@dataclass(frozen=True, slots=True)
class FunctionCommands:
    """Performs commands on functions; all sessions share those that are not temporary, and the registry keeps them."""

    engine: StatementEngine
    shared: CreatedFunctions

    def execute(self, statement: sql.FunctionCommand, request: CatalogRequest) -> OperationResult:
        """Perform *statement*; raises DefinitionInvalid, IllegalStatus, or what Spark says of the function."""
        match statement:
            case sql.CreateFunction(temporary=True):
                self._create_temporary(statement, request)
            case sql.CreateFunction():
                self._create(statement, request)
            case sql.AlterFunction():
                self._alter(statement, request)
            case sql.DropFunction():
                self._drop(statement, request)
            case sql.ShowCreateFunction(name=name):
                function, temporary = self._defined(name, request)
                if function is None:
                    raise _missing(name)
                text = show_create_function(function, temporary=temporary)
                return content(names_only("result", [text]))
            case sql.DescribeFunction():
                return self._describe(statement, request)
            case _:
                raise MtError(f"{type(statement).__name__} is not a command on a function.")
        return DONE

    def names(self, request: CatalogRequest) -> set[str]:
        """Return the functions that SHOW USER FUNCTIONS lists beside those of Spark's catalogs."""
        return {*self.shared.all(), *self.engine.session_state(request.context).functions}

    # -------------------------------------------------------------------------------------------------------- commands

    def _create(self, statement: sql.CreateFunction, request: CatalogRequest) -> None:
        name = statement.function.name
        if self.shared.get(name) is not None and not statement.or_replace:
            if statement.if_not_exists:
                return
            raise taken(name)
        if name in self.engine.session_state(request.context).functions:
            raise DefinitionInvalid(
                f"Function {name} is a temporary function of this session, which would hide it; DROP TEMPORARY "
                f"FUNCTION {name} first."
            )
        function = self.engine.check_function(request.context, statement.function)
        if statement.or_replace:
            self.shared.replace(function)
        else:
            self.shared.create(function)

    def _create_temporary(self, statement: sql.CreateFunction, request: CatalogRequest) -> None:
        name = statement.function.name
        if self.shared.get(name) is not None:
            raise DefinitionInvalid(
                f"Function {name} is a function of all sessions, which a temporary one cannot hide; choose another name."
            )
        if name in self.engine.session_state(request.context).functions and not statement.or_replace:
            if statement.if_not_exists:
                return
            raise DefinitionInvalid(
                f"Temporary function {name} exists already; choose another name, DROP TEMPORARY FUNCTION {name} first, or "
                "CREATE OR REPLACE TEMPORARY FUNCTION."
            )
        self.engine.create_temporary_function(request.context, statement.function)

    def _alter(self, statement: sql.AlterFunction, request: CatalogRequest) -> None:
        former = self.shared.get(statement.function.name)
        if former is None:
            if statement.if_exists:
                return
            raise _missing(statement.function.name)
        self.shared.replace(self.engine.check_function(request.context, in_place_of(statement.function, former)))

    def _drop(self, statement: sql.DropFunction, request: CatalogRequest) -> None:
        name, is_shared = statement.name, self.shared.get(statement.name) is not None
        if statement.temporary:
            if is_shared:
                raise DefinitionInvalid(
                    f"Function {name} is not temporary; DROP FUNCTION {name} drops it for all sessions."
                )
            guard = "IF EXISTS " if statement.if_exists else ""
            self.engine.execute(request.context, f"DROP TEMPORARY FUNCTION {guard}{quote(name)}", job_id=request.job_id)
        elif is_shared:
            self.shared.drop(name)
        elif name in self.engine.session_state(request.context).functions:
            raise DefinitionInvalid(f"Function {name} is temporary; DROP TEMPORARY FUNCTION {name} drops it.")
        elif not statement.if_exists:
            raise _missing(name)

    def _describe(self, statement: sql.DescribeFunction, request: CatalogRequest) -> OperationResult:
        """Return a function of a statement in Flink's rows, any other as Spark describes it."""
        function, temporary = self._defined(statement.name, request)
        if function is None:
            rows = self.engine.execute(request.context, statement.text, job_id=request.job_id).rows
            return content(RowSet(columns=rows.columns, rows=rows.page(0, MOST))) if rows is not None else DONE
        described: list[list[Any]] = [["is system function", "false"], ["is temporary", str(temporary).lower()]]
        if statement.extended:
            described += _details(function)
        return content(RowSet(columns=_INFO, rows=described))

    def _defined(self, name: str, request: CatalogRequest) -> tuple[CreatedFunction | None, bool]:
        """Return the function that a statement created under *name*, and whether it is temporary."""
        for each in request.session.temporary:
            if each.is_function and each.name == name:
                fact = ReadStatement(each.text).fact
                if isinstance(fact, sql.CreateFunction):
                    return fact.function, True
        return self.shared.get(name), False


def _details(function: CreatedFunction) -> list[list[Any]]:
    uris = ", ".join(each.uri for each in function.files)
    return [
        ["kind", function.kind.value],
        ["function language", function.language.value],
        ["class name" if function.files or function.language.value != "SQL" else "expression", function.body],
        ["resource uris", f"[{uris}]"],
        ["is deterministic", {None: "not declared", True: "true", False: "false"}[function.deterministic]],
        ["signature", f"{function.name}({function.parameters if function.parameters is not None else '...'})"],
        ["returns", function.returns or None],
        ["comment", function.comment],
    ]


def _missing(name: str) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"Function {name} does not exist; SHOW USER FUNCTIONS lists those that statements created."
    )
