"""Function sync: gives each Spark session the functions that statements created, and each later change of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, MtError
from mt_core.model.function import CreatedFunction, FunctionKind, FunctionLanguage
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import active_session, state_of, static_value
from mt_core.spark.driver.session_functions import SessionFunctions
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.java_functions import described, register_java
from mt_core.spark.functions.sql_functions import identifier_of, register_sql, returned_type, spark_parser

log = logging.getLogger(__name__)

FunctionSource = Callable[[], Mapping[str, CreatedFunction]]
"""Returns the created functions by their names: the same object until one changes. Safe from any thread."""

_NONE: Mapping[str, CreatedFunction] = {}
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
# By session: after the loss of a JVM the sessions are new, without any of these functions.
_applied: WeakKeyDictionary[SparkSession, Mapping[str, CreatedFunction]] = WeakKeyDictionary()


def functions_of(session: SparkSession) -> Mapping[str, CreatedFunction]:
    """Return the functions of all sessions that *session* has."""
    return _applied.get(session, _NONE)


def deterministic_functions(session: SparkSession) -> frozenset[str]:
    """Return the names of those functions of *session* that their users have declared to be DETERMINISTIC."""
    return frozenset(name for name, function in functions_of(session).items() if function.deterministic)


class FunctionSync(SessionFunctions):
    """Applies the functions of a source to sessions; safe from any thread.

    Spark takes them for its own: a view may call them, where it would refuse temporary ones.
    """

    def __init__(self, source: FunctionSource, files: FunctionFiles) -> None:
        self._source, self._files = source, files
        self._lock = threading.Lock()

    def apply(self, session: SparkSession) -> None:
        """Give *session* the functions as they are now; logs those that cannot be, which are missing there then."""
        wanted = self._source()
        if _applied.get(session, _NONE) is wanted:
            return
        with self._lock:
            applied = functions_of(session)
            for name in {**applied, **wanted}:
                if applied.get(name) != wanted.get(name):
                    self._change(session, name, applied.get(name), wanted.get(name))
            _applied[session] = wanted

    def checked(self, session: SparkSession, function: CreatedFunction) -> CreatedFunction:
        """Return *function* as it is kept; *session*, which becomes useless, has its catalogs. Raises DefinitionInvalid."""
        scalar, table = _builtin(session)
        if function.name not in functions_of(session):
            name = identifier_of(session, function.name)
            if scalar.functionExists(name) or table.functionExists(name):
                raise DefinitionInvalid(f"Function {function.name} is one of Spark's own; choose another name.")
        kept = self._typed(session, self._files.kept(function))
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

    def _typed(self, session: SparkSession, function: CreatedFunction) -> CreatedFunction:
        match function.language:
            case FunctionLanguage.SQL:
                return function if function.returns else replace(function, returns=returned_type(session, function))
            case _:
                return described(session, function, self._files)

    def _change(
        self, session: SparkSession, name: str, former: CreatedFunction | None, wanted: CreatedFunction | None
    ) -> None:
        # One that is replaced stays among Spark's own meanwhile: a view may be read.
        if former is not None and (wanted is None or wanted.kind is not former.kind):
            _remove(session, name)
        if wanted is None:
            return
        try:
            self.register(session, wanted)
            _show_as_builtin(session, wanted)
        except (*SPARK_ERRORS, MtError, OSError) as error:
            for registry in _registries(session):
                registry.dropFunction(identifier_of(session, name))
            log.warning("function %s cannot be called: %s", name, error, extra={"action": "function_unusable"})


def _builtin(session: SparkSession) -> tuple[Any, Any]:
    """Return Spark's registries of its own functions: of those that give a value, and of those that give rows."""
    return (
        static_value(session, f"{_ANALYSIS}.FunctionRegistry.builtin"),
        static_value(session, f"{_ANALYSIS}.TableFunctionRegistry.builtin"),
    )


def _registries(session: SparkSession) -> tuple[Any, Any]:
    return state_of(session).functionRegistry(), state_of(session).tableFunctionRegistry()


def _show_as_builtin(session: SparkSession, function: CreatedFunction) -> None:
    """List the function among Spark's own, which only says what it is: each session calls what it has itself."""
    index, name = int(function.kind is FunctionKind.TABLE), identifier_of(session, function.name)
    own, all_ = _registries(session)[index], _builtin(session)[index]
    all_.registerFunction(name, own.lookupFunction(name).get(), own.lookupFunctionBuilder(name).get())


def _remove(session: SparkSession, name: str) -> None:
    for registry in (*_registries(session), *_builtin(session)):
        registry.dropFunction(identifier_of(session, name))


def _try_call(session: SparkSession, function: CreatedFunction) -> None:
    """Analyse a call with values that are null, so that a wrong body fails here; raises Spark's errors of analysis."""
    columns = spark_parser(session).parseRoutineParam(function.parameters).fields() if function.parameters else []
    nulls = ", ".join(f"CAST(NULL AS {each.dataType().sql()})" for each in columns)
    call = f"`{function.name.replace('`', '``')}`({nulls})"
    session.sql(f"SELECT * FROM {call}" if function.kind is FunctionKind.TABLE else f"SELECT {call}")
