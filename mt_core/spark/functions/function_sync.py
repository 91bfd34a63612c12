"""Function sync: gives each Spark session the functions that statements created,
and each later change of them.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import quote
from mt_core.errors import DefinitionInvalid, MtError, QueryFailed, Unsupported
from mt_core.model.function import CreatedFunction, FunctionKind, FunctionLanguage
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import active_session, scala_items, state_of, static_value
from mt_core.spark.driver.session_functions import FunctionLoading, FunctionUncallable, SessionFunctions
from mt_core.spark.files.remote_files import fetch_file
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.java_functions import described, register_java
from mt_core.spark.functions.late_declarations import LateDeclarations
from mt_core.spark.functions.python_code import Check, ModuleReader, is_current, no_check
from mt_core.spark.functions.python_functions import decorator_settings, described_python, register_python
from mt_core.spark.functions.sql_functions import identifier_of, register_sql, returned_type, spark_parser

log = logging.getLogger(__name__)

FunctionSource = Callable[[], Mapping[str, CreatedFunction]]
"""Returns the created functions by their names: the same object until one changes. Safe from any thread."""

CHEAP_S = 0.1
"""A function that cannot be called is tried again before each statement if that takes less.
One that loads much before it fails is not: that would hold up all statements."""
_WAITS = 10
_LEFT_OUT = (
    "the gateway was started with --without-functions (sql-gateway.functions.enabled = false), "
    "and runs no code of users; start it without that option"
)
_NONE: Mapping[str, CreatedFunction] = {}
_UNRESOLVED = re.compile(r"Cannot resolve routine (\S+) on search path")
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
# By session: after the loss of a JVM the sessions are new, without any of these functions.
_applied: WeakKeyDictionary[SparkSession, Mapping[str, CreatedFunction]] = WeakKeyDictionary()


def functions_of(session: SparkSession) -> Mapping[str, CreatedFunction]:
    """Return the functions of all sessions that *session* has."""
    return _applied.get(session, _NONE)


def deterministic_functions(session: SparkSession) -> frozenset[str]:
    """Return the names of those functions of *session* that their users have declared to be DETERMINISTIC."""
    return frozenset(name for name, function in functions_of(session).items() if function.deterministic)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unusable:
    """A function that could not be registered, why, and when that is tried again, as its clock counts."""

    function: CreatedFunction
    reason: str
    again_at: float
    loading: bool = False


class FunctionSync(SessionFunctions):
    """Applies the functions of a source to sessions; safe from any thread.

    Spark takes them for its own: a view may call them, where it would refuse temporary ones. *keep*
    stores what *modules* has read of one that was created without that. Where *has_code* is False, only
    functions in SQL can be called.
    """

    def __init__(
        self,
        source: FunctionSource,
        files: FunctionFiles,
        now: Callable[[], float] = time.monotonic,
        *,
        modules: ModuleReader | None = None,
        keep: Callable[[CreatedFunction], object] = lambda _function: None,
        has_code: bool = True,
    ) -> None:
        self._source, self._files, self._now, self._has_code = source, files, now, has_code
        self._modules = modules or ModuleReader({})
        self._late = LateDeclarations(keep, now)
        self._lock = threading.Lock()
        self._unusable: dict[str, _Unusable] = {}
        self._listed: set[str] = set()

    def apply(self, session: SparkSession) -> None:
        """Give *session* the functions as they are now; logs those that cannot be,
        which are missing there then.
        """
        wanted = self._source()
        if _applied.get(session, _NONE) is wanted:
            return
        if self._has_code and (late := [each for each in wanted.values() if _is_undeclared(each)]):
            # Before the lock: other sessions go on meanwhile.
            self._late.read(late, partial(self._late_declaration, session))
            wanted = self._source()
        with self._lock:
            self._unlist(session, wanted)
            applied = functions_of(session)
            unusable = {
                name
                for name in {**applied, **wanted}
                if applied.get(name) != wanted.get(name)
                and not self._change(session, name, applied.get(name), wanted.get(name))
            }
            # Those that cannot be called are tried again before a later statement.
            _applied[session] = (
                {name: each for name, each in wanted.items() if name not in unusable} if unusable else wanted
            )

    def explained(self, error: QueryFailed) -> QueryFailed:
        """Return *error*, or why a function cannot be called if it is that Spark does not know
        one of these.
        """
        found = _UNRESOLVED.search(error.message)
        name = found[1].replace("`", "").casefold() if found else ""
        unusable = {each.casefold(): why for each, why in list(self._unusable.items())}.get(name)
        if unusable is None:
            return error
        reason = f"Function {name} cannot be called: {unusable.reason.removeprefix(f'Function {name}: ')}"
        uncallable = FunctionUncallable(
            reason,
            error_class=error.error_class,
            sqlstate=error.sqlstate,
            line=error.line,
            position=error.position,
        )
        uncallable.loading = unusable.loading
        return uncallable

    def checked(
        self, session: SparkSession, function: CreatedFunction, check: Check = no_check
    ) -> CreatedFunction:
        """Return *function* as it is kept; *session*, which becomes useless, has its catalogs.

        Raises DefinitionInvalid.
        """
        if not self._has_code and function.language is not FunctionLanguage.SQL:
            raise Unsupported(f"Function {function.name} cannot be created: {_LEFT_OUT}.")
        scalar, table = _builtin(session)
        present = self._source()
        with self._lock:
            self._unlist(session, present)
        if function.name not in present:
            name = identifier_of(session, function.name)
            if scalar.functionExists(name) or table.functionExists(name):
                raise DefinitionInvalid(
                    f"Function {function.name} is one of Spark's own; choose another name."
                )
        kept = self._typed(session, self._files.kept(function, partial(fetch_file, session)), check)
        self.register(session, kept)
        if kept.language is FunctionLanguage.SQL:
            _try_call(session, kept)
        return kept

    def register(self, session: SparkSession, function: CreatedFunction) -> None:
        """Register *function*, as it is kept, in *session*; raises Spark's errors, and MtError."""
        with active_session(session):
            match function.language:
                case FunctionLanguage.SQL:
                    register_sql(session, function)
                case FunctionLanguage.JAVA | FunctionLanguage.SCALA:
                    register_java(session, function, self._files)
                case FunctionLanguage.PYTHON:
                    register_python(session, function, self._files)

    def _typed(self, session: SparkSession, function: CreatedFunction, check: Check) -> CreatedFunction:
        match function.language:
            case FunctionLanguage.SQL:
                return (
                    function
                    if function.returns
                    else replace(function, returns=returned_type(session, function))
                )
            case FunctionLanguage.PYTHON:
                return described_python(session, self._with_declaration(session, function, check))
            case _:
                return described(session, function, self._files)

    def _with_declaration(
        self, session: SparkSession, function: CreatedFunction, check: Check = no_check
    ) -> CreatedFunction:
        settings = decorator_settings(session)
        return replace(function, declared=self._modules.declared(function, self._files, settings, check))

    def _late_declaration(self, session: SparkSession, function: CreatedFunction) -> CreatedFunction:
        return self._with_declaration(session, self._files.kept(function, partial(fetch_file, session)))

    def _unlist(self, session: SparkSession, wanted: Mapping[str, CreatedFunction]) -> None:
        """Take dropped functions from the list of Spark's own, also if each session
        that called them has ended.
        """
        for name in self._listed - wanted.keys():
            for registry in _builtin(session):
                registry.dropFunction(identifier_of(session, name))
            self._listed.discard(name)

    def _change(
        self, session: SparkSession, name: str, former: CreatedFunction | None, wanted: CreatedFunction | None
    ) -> bool:
        """Give *session* one function as it is now; return whether it can be called, if there is one."""
        # One that is replaced stays among Spark's own meanwhile: a view may be read.
        if former is not None and (wanted is None or wanted.kind is not former.kind):
            _remove(session, name)
        if wanted is None:
            self._unusable.pop(name, None)
            return True
        before, began = self._unusable.get(name), self._now()
        known = before is not None and before.function == wanted
        if before is not None and known and began < before.again_at:
            _drop(session, name)
            return False
        try:
            if not self._has_code and wanted.language is not FunctionLanguage.SQL:
                raise Unsupported(f"Function {name}: {_LEFT_OUT}.")
            if _is_undeclared(wanted):
                raise self._late.reason(wanted)
            # A copy that the home has lost comes back from the file, if that is still the same.
            self.register(session, self._files.kept(wanted, partial(fetch_file, session)))
            _show_as_builtin(session, wanted)
            self._listed.add(name)
        except (*SPARK_ERRORS, MtError, OSError) as error:
            _drop(session, name)
            if not known:
                log.warning(
                    "function %s cannot be called: %s", name, error, extra={"action": "function_unusable"}
                )
            ended = self._now()
            wait_s = 0.0 if ended - began < CHEAP_S else _WAITS * (ended - began)
            self._unusable[name] = _Unusable(
                function=wanted,
                reason=_said(error),
                again_at=ended + wait_s,
                loading=isinstance(error, FunctionLoading),
            )
            return False
        self._unusable.pop(name, None)
        return True


def _is_undeclared(function: CreatedFunction) -> bool:
    return function.language is FunctionLanguage.PYTHON and not is_current(function.declared)


def _said(error: BaseException) -> str:
    """Return the message of an error, as a person reads it."""
    return str(error) if isinstance(error, OSError) else str(translate(error))


def _builtin(session: SparkSession) -> tuple[Any, Any]:
    """Return Spark's registries of its own functions: of those that give a value,
    and of those that give rows.
    """
    return (
        static_value(session, f"{_ANALYSIS}.FunctionRegistry.builtin"),
        static_value(session, f"{_ANALYSIS}.TableFunctionRegistry.builtin"),
    )


def _registries(session: SparkSession) -> tuple[Any, Any]:
    return state_of(session).functionRegistry(), state_of(session).tableFunctionRegistry()


def _show_as_builtin(session: SparkSession, function: CreatedFunction) -> None:
    """List the function among Spark's own, which only says what it is:
    each session calls what it has itself.
    """
    index, name = int(function.kind is FunctionKind.TABLE), identifier_of(session, function.name)
    own, all_ = _registries(session)[index], _builtin(session)[index]
    all_.registerFunction(name, own.lookupFunction(name).get(), own.lookupFunctionBuilder(name).get())


def _drop(session: SparkSession, name: str) -> None:
    for registry in _registries(session):
        registry.dropFunction(identifier_of(session, name))


def _remove(session: SparkSession, name: str) -> None:
    for registry in (*_registries(session), *_builtin(session)):
        registry.dropFunction(identifier_of(session, name))


def _try_call(session: SparkSession, function: CreatedFunction) -> None:
    """Analyse a call with values that are null, so that a wrong body fails here;
    raises Spark's errors of analysis.
    """
    columns = (
        spark_parser(session).parseRoutineParam(function.parameters).fields() if function.parameters else []
    )
    nulls = ", ".join(f"CAST(NULL AS {each.dataType().sql()})" for each in columns)
    call = f"{quote(function.name)}({nulls})"
    if function.kind is FunctionKind.TABLE:
        session.sql(f"SELECT * FROM {call}")
    elif _gives_rows(session.sql(f"SELECT {call}")):
        raise DefinitionInvalid(
            f"Function {function.name}: its expression gives rows, not a value; write RETURNS TABLE RETURN "
            f"SELECT …, and call {function.name}(…) in FROM."
        )


def _gives_rows(frame: DataFrame) -> bool:
    """Whether a query has a function such as explode outside of its subqueries."""
    plans: list[Any] = [frame._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        if plan.nodeName() == "Generate":
            return True
        plans += scala_items(plan.children())
    return False
