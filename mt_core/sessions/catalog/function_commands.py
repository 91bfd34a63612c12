"""Commands on functions: CREATE, ALTER, DROP, DESCRIBE and SHOW CREATE FUNCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mt_core.base.identifiers import quote
from mt_core.base.rowset import RowSet
from mt_core.errors import DefinitionInvalid
from mt_core.model.function import CreatedFunction, FunctionKind, FunctionLanguage, show_create_function
from mt_core.model.new_names import check_new_name
from mt_core.sessions.catalog.created_functions import CreatedFunctions, in_place_of, taken
from mt_core.sessions.operations.operation import DONE, OperationResult, content
from mt_core.sessions.ports import FunctionEngine
from mt_core.sessions.statements.catalog_requests import Answers
from mt_core.sessions.statements.listings import INFO, MOST, CatalogRequest, names_only
from mt_core.sessions.temporary_objects import TemporaryObject, created
from mt_core.sql import functions as sql
from mt_core.sql.parser import ReadStatement


@dataclass(frozen=True, slots=True)
class FunctionCommands:
    """Performs commands on functions. The registry stores permanent functions for all sessions."""

    engine: FunctionEngine
    shared: CreatedFunctions

    @property
    def answers(self) -> Answers:
        """The function that performs each command.

        It raises DefinitionInvalid, IllegalStatus or Spark's error.
        """
        return {
            sql.CreateFunction: self._create,
            sql.AlterFunction: self._alter,
            sql.DropFunction: self._drop,
            sql.ShowCreateFunction: self._show_create,
            sql.DescribeFunction: self._describe,
        }

    def names(self, request: CatalogRequest) -> set[str]:
        """Return the functions that SHOW USER FUNCTIONS lists in addition to those in Spark's catalogs."""
        return {*self.shared.all(), *self.engine.session_state(request.context).functions}

    # ----------------------------------------------------------------------------------------------- commands

    def _create(self, statement: sql.CreateFunction, request: CatalogRequest) -> OperationResult:
        if statement.temporary:
            return self._create_temporary(statement, request)
        name = statement.function.name
        check_new_name((name,))
        if self.shared.get(name) is not None and not statement.or_replace:
            if statement.if_not_exists:
                return DONE
            raise taken(name)
        if name in self.engine.session_state(request.context).functions:
            raise DefinitionInvalid(
                f"Function {name} is a temporary function of this session, which would hide it; "
                f"DROP TEMPORARY FUNCTION {name} first."
            )
        function = self.engine.check_function(request.context, statement.function, job_id=request.job_id)
        if statement.or_replace:
            self.shared.replace(function)
        else:
            self.shared.create(function)
        return DONE

    def _create_temporary(self, statement: sql.CreateFunction, request: CatalogRequest) -> OperationResult:
        name = statement.function.name
        check_new_name((name,))
        if self.shared.get(name) is not None:
            raise DefinitionInvalid(
                f"Function {name} is a function of all sessions, which a temporary one cannot hide; "
                "choose another name."
            )
        if name in self.engine.session_state(request.context).functions and not statement.or_replace:
            if statement.if_not_exists:
                return DONE
            raise DefinitionInvalid(
                f"Temporary function {name} exists already; choose another name, "
                f"DROP TEMPORARY FUNCTION {name} first, or CREATE OR REPLACE TEMPORARY FUNCTION."
            )
        function = self.engine.create_temporary_function(
            request.context, statement.function, job_id=request.job_id
        )
        one = TemporaryObject(
            name=name,
            is_function=True,
            # A restarted job needs exactly this version of the code.
            text=show_create_function(function, temporary=True, pinned=True),
            catalog=function.catalog,
            namespace=function.namespace,
        )
        request.session.temporary = created(request.session.temporary, one)
        return DONE

    def _alter(self, statement: sql.AlterFunction, request: CatalogRequest) -> OperationResult:
        former = self.shared.get(statement.function.name)
        if former is None:
            if statement.if_exists:
                return DONE
            raise _missing(statement.function.name)
        function = in_place_of(statement.function, former)
        self.shared.replace(self.engine.check_function(request.context, function, job_id=request.job_id))
        return DONE

    def _drop(self, statement: sql.DropFunction, request: CatalogRequest) -> OperationResult:
        name, is_shared = statement.name, self.shared.get(statement.name) is not None
        if statement.temporary:
            if is_shared:
                raise DefinitionInvalid(
                    f"Function {name} is not temporary; DROP FUNCTION {name} drops it for all sessions."
                )
            guard = "IF EXISTS " if statement.if_exists else ""
            self.engine.execute(
                request.context, f"DROP TEMPORARY FUNCTION {guard}{quote(name)}", job_id=request.job_id
            )
        elif is_shared:
            self.shared.drop(name)
        elif name in self.engine.session_state(request.context).functions:
            raise DefinitionInvalid(f"Function {name} is temporary; DROP TEMPORARY FUNCTION {name} drops it.")
        elif not statement.if_exists:
            raise _missing(name)
        return DONE

    def _show_create(self, statement: sql.ShowCreateFunction, request: CatalogRequest) -> OperationResult:
        function, temporary = self._defined(statement.name, request)
        if function is None:
            raise _missing(statement.name)
        return content(names_only("result", [show_create_function(function, temporary=temporary)]))

    def _describe(self, statement: sql.DescribeFunction, request: CatalogRequest) -> OperationResult:
        """Describe a created function in Flink's rows, and any other function as Spark does."""
        function, temporary = self._defined(statement.name, request)
        if function is None:
            rows = self.engine.execute(request.context, statement.text, job_id=request.job_id).rows
            return (
                content(RowSet(columns=rows.columns, rows=rows.page(0, MOST))) if rows is not None else DONE
            )
        described = _main_facts(function, temporary=temporary)
        if statement.extended:
            described += _details(function)
        return content(RowSet(columns=INFO, rows=described))

    def _defined(self, name: str, request: CatalogRequest) -> tuple[CreatedFunction | None, bool]:
        """Return the created function *name* and whether it is temporary."""
        for each in request.session.temporary:
            if each.is_function and each.name == name:
                fact = ReadStatement(each.text).fact
                if isinstance(fact, sql.CreateFunction):
                    return fact.function, True
        return self.shared.get(name), False


def _main_facts(function: CreatedFunction, *, temporary: bool) -> list[list[Any]]:
    """Return the rows of Flink's DESCRIBE FUNCTION, in Flink's order."""
    uris = ", ".join(f"ResourceUri{{resourceType={each.kind}, uri='{each.uri}'}}" for each in function.files)
    return [
        ["is system function", "false"],
        ["is temporary", str(temporary).lower()],
        ["class name", None if function.language is FunctionLanguage.SQL else function.body],
        ["function language", function.language.value],
        ["resource uris", f"[{uris}]"],
    ]


def _details(function: CreatedFunction) -> list[list[Any]]:
    """Return the rows that EXTENDED adds: first Flink's, then Freshtable's own."""
    expression = [["expression", function.body]] if function.language is FunctionLanguage.SQL else []
    return [
        ["kind", function.kind.value],
        ["requirements", "[]"],
        ["is deterministic", {None: "not declared", True: "true", False: "false"}[function.deterministic]],
        ["supports constant folding", str(_is_folded(function)).lower()],
        [
            "signature",
            f"{function.name}({function.parameters if function.parameters is not None else '...'})",
        ],
        *expression,
        ["returns", function.returns or None],
        ["comment", function.comment],
    ]


def _is_folded(function: CreatedFunction) -> bool:
    """Return whether Spark evaluates a call with constant arguments while it plans the query.

    Spark never does so for Python.
    """
    is_evaluated = function.kind is FunctionKind.SCALAR and function.language is not FunctionLanguage.PYTHON
    return is_evaluated and function.deterministic is not False


def _missing(name: str) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"Function {name} does not exist; SHOW USER FUNCTIONS lists the created functions."
    )
