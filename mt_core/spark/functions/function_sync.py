"""Function sync: registers created functions in Spark sessions, and updates them when they change.

Spark has no persistent functions without Hive, and a view may not call a temporary function. A created
function is therefore registered as if it were one of Spark's own. Its builder is registered in each
session, before the session's next statement. Its description is registered once per JVM in the built-in
registry, for the sole purpose that Spark treats it as built-in.

A function that cannot be registered, for example because its file is missing, must not fail statements that
do not call it. It is left out, and the reason is raised only if Spark does not find it (`explained`). The
next statement tries again. After a slow attempt, the next one waits `_WAITS` times as long as the attempt
took, so a broken function takes up no more than a tenth of the time of all statements.
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
from mt_core.spark.functions.java_functions import describe_java, register_java
from mt_core.spark.functions.late_declarations import LateDeclarations
from mt_core.spark.functions.python_code import Check, ModuleReader, is_current, no_check
from mt_core.spark.functions.python_functions import decorator_settings, describe_python, register_python
from mt_core.spark.functions.sql_functions import identifier_of, register_sql, returned_type, spark_parser

log = logging.getLogger(__name__)

FunctionSource = Callable[[], Mapping[str, CreatedFunction]]
"""Returns the created functions by name, as the same object until a function changes. Thread-safe."""

CHEAP_S = 0.1
"""A registration that failed within this time, in seconds, is repeated before each statement.

A slower registration, which loads much code before it fails, would delay all statements.
"""
_WAITS = 10
_LEFT_OUT = (
    "the gateway was started with --without-functions (sql-gateway.functions.enabled = false), "
    "and runs no code of users; start it without that option"
)
_NONE: Mapping[str, CreatedFunction] = {}
_UNRESOLVED = re.compile(r"Cannot resolve routine (\S+) on search path")
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
# By session, because the sessions of a new JVM do not have these functions.
_applied: WeakKeyDictionary[SparkSession, Mapping[str, CreatedFunction]] = WeakKeyDictionary()


def functions_of(session: SparkSession) -> Mapping[str, CreatedFunction]:
    """Return the created functions that are registered in *session*."""
    return _applied.get(session, _NONE)


def deterministic_functions(session: SparkSession) -> frozenset[str]:
    """Return the names of the functions of *session* that are declared DETERMINISTIC."""
    return frozenset(name for name, function in functions_of(session).items() if function.deterministic)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unusable:
    """A function that could not be registered, the reason, and the time at which it may be tried again."""

    function: CreatedFunction
    reason: str
    again_at: float
    loading: bool = False


class FunctionSync(SessionFunctions):
    """Registers the functions of *source* in sessions. Thread-safe.

    *keep* stores a function whose declaration was read late. If *has_code* is false, only functions in SQL
    can be called.
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
        self._builtin_names: set[str] = set()

    def apply(self, session: SparkSession) -> None:
        """Register the current functions in *session* and remove functions that were dropped.

        Does nothing if they have not changed. A function that cannot be registered is logged and left out,
        and later calls try it again.
        """
        target = self._source()
        if _applied.get(session, _NONE) is target:
            return
        if self._has_code and (late := [each for each in target.values() if _is_undeclared(each)]):
            # Read them before the lock is acquired, because that may take seconds.
            self._late.read(late, partial(self._late_declaration, session))
            target = self._source()
        with self._lock:
            self._remove_dropped(session, target)
            current = functions_of(session)
            unusable = {
                name
                for name in {**current, **target}
                if current.get(name) != target.get(name)
                and not self._change(session, name, current.get(name), target.get(name))
            }
            # The functions that failed are left out, so that the next statement tries them again.
            _applied[session] = (
                {name: each for name, each in target.items() if name not in unusable} if unusable else target
            )

    def explained(self, error: QueryFailed) -> QueryFailed:
        """Return *error* or, if Spark did not find a created function, the reason why it cannot be called."""
        match = _UNRESOLVED.search(error.message)
        name = match[1].replace("`", "").casefold() if match else ""
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
        """Return the validated *function* in the form in which it is stored.

        *session* must have the catalogs of the function, and must not be used afterwards. Raises
        DefinitionInvalid.
        """
        if not self._has_code and function.language is not FunctionLanguage.SQL:
            raise Unsupported(f"Function {function.name} cannot be created: {_LEFT_OUT}.")
        scalar, table = _builtin(session)
        functions = self._source()
        with self._lock:
            self._remove_dropped(session, functions)
        if function.name not in functions:
            name = identifier_of(session, function.name)
            if scalar.functionExists(name) or table.functionExists(name):
                raise DefinitionInvalid(
                    f"Function {function.name} is one of Spark's own; choose another name."
                )
        stored = self._typed(session, self._files.copied(function, partial(fetch_file, session)), check)
        self.register(session, stored)
        if stored.language is FunctionLanguage.SQL:
            _try_call(session, stored)
        return stored

    def register(self, session: SparkSession, function: CreatedFunction) -> None:
        """Register *function*, in its stored form, in *session*. Raises Spark's errors and MtError."""
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
                return describe_python(session, self._with_declaration(session, function, check))
            case _:
                return describe_java(session, function, self._files)

    def _with_declaration(
        self, session: SparkSession, function: CreatedFunction, check: Check = no_check
    ) -> CreatedFunction:
        settings = decorator_settings(session)
        return replace(function, declared=self._modules.declared(function, self._files, settings, check))

    def _late_declaration(self, session: SparkSession, function: CreatedFunction) -> CreatedFunction:
        return self._with_declaration(session, self._files.copied(function, partial(fetch_file, session)))

    def _remove_dropped(self, session: SparkSession, target: Mapping[str, CreatedFunction]) -> None:
        """Remove dropped functions from Spark's built-in registries, even if no session has them now."""
        for name in self._builtin_names - target.keys():
            for registry in _builtin(session):
                registry.dropFunction(identifier_of(session, name))
            self._builtin_names.discard(name)

    def _change(
        self, session: SparkSession, name: str, former: CreatedFunction | None, target: CreatedFunction | None
    ) -> bool:
        """Update one function in *session*. Return False if it cannot be registered."""
        # A replaced function remains registered, because a view may be calling it.
        if former is not None and (target is None or target.kind is not former.kind):
            _remove(session, name)
        if target is None:
            self._unusable.pop(name, None)
            return True
        failure, began = self._unusable.get(name), self._now()
        failed_before = failure is not None and failure.function == target
        if failure is not None and failed_before and began < failure.again_at:
            _drop(session, name)
            return False
        try:
            if not self._has_code and target.language is not FunctionLanguage.SQL:
                raise Unsupported(f"Function {name}: {_LEFT_OUT}.")
            if _is_undeclared(target):
                raise self._late.reason(target)
            # This restores a missing copy from the original file, if that is unchanged.
            self.register(session, self._files.copied(target, partial(fetch_file, session)))
            _show_as_builtin(session, target)
            self._builtin_names.add(name)
        except (*SPARK_ERRORS, MtError, OSError) as error:
            _drop(session, name)
            if not failed_before:
                log.warning(
                    "function %s cannot be called: %s", name, error, extra={"action": "function_unusable"}
                )
            ended = self._now()
            wait_s = 0.0 if ended - began < CHEAP_S else _WAITS * (ended - began)
            self._unusable[name] = _Unusable(
                function=target,
                reason=_user_message(error),
                again_at=ended + wait_s,
                loading=isinstance(error, FunctionLoading),
            )
            return False
        self._unusable.pop(name, None)
        return True


def _is_undeclared(function: CreatedFunction) -> bool:
    return function.language is FunctionLanguage.PYTHON and not is_current(function.declared)


def _user_message(error: BaseException) -> str:
    """Return the message of *error* for users."""
    return str(error) if isinstance(error, OSError) else str(translate(error))


def _builtin(session: SparkSession) -> tuple[Any, Any]:
    """Return Spark's built-in registries, first of scalar and aggregate, then of table functions."""
    return (
        static_value(session, f"{_ANALYSIS}.FunctionRegistry.builtin"),
        static_value(session, f"{_ANALYSIS}.TableFunctionRegistry.builtin"),
    )


def _registries(session: SparkSession) -> tuple[Any, Any]:
    return state_of(session).functionRegistry(), state_of(session).tableFunctionRegistry()


def _show_as_builtin(session: SparkSession, function: CreatedFunction) -> None:
    """Add the function to Spark's built-in registry. Calls still use the builder of each session."""
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
    """Analyse a call with NULL arguments, to detect an invalid body. Raises Spark's analysis errors."""
    columns = (
        spark_parser(session).parseRoutineParam(function.parameters).fields() if function.parameters else []
    )
    nulls = ", ".join(f"CAST(NULL AS {each.dataType().sql()})" for each in columns)
    call = f"{quote(function.name)}({nulls})"
    if function.kind is FunctionKind.TABLE:
        session.sql(f"SELECT * FROM {call}")
    elif _gives_rows(session.sql(f"SELECT {call}")):
        raise DefinitionInvalid(
            f"Function {function.name}: its expression returns rows, not a value; write RETURNS TABLE RETURN "
            f"SELECT …, and call {function.name}(…) in FROM."
        )


def _gives_rows(frame: DataFrame) -> bool:
    """Return whether a query calls a generator such as explode outside of its subqueries."""
    plans: list[Any] = [frame._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        if plan.nodeName() == "Generate":
            return True
        plans += scala_items(plan.children())
    return False
