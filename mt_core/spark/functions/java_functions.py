"""Functions in Java or Scala. Each function has a class loader of its own for its jars."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.function import CreatedFunction, FunctionKind
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import java_strings, own_class, state_of
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.sql_functions import identifier_of, no_columns, spark_parser

_BUILDERS = "freshtable.functions.UserFunctions"
_KINDS = {"scalar": FunctionKind.SCALAR, "aggregate": FunctionKind.AGGREGATE}


def describe_java(session: SparkSession, function: CreatedFunction, files: FunctionFiles) -> CreatedFunction:
    """Return *function* with its kind and return type, as determined from its class.

    Raises DefinitionInvalid if the class is missing or cannot be instantiated, and Unsupported for a table
    function or for any other kind of class.
    """
    if function.kind is FunctionKind.TABLE:
        raise Unsupported(
            f"Function {function.name} RETURNS TABLE, which Spark does not support for classes in Java and "
            "Scala; write it with LANGUAGE PYTHON, or as RETURN and a query."
        )
    ship(session, function, files)
    users = users_functions(session)
    try:
        answer = str(users.kindOf(_names(session, function), function.body))
    except SPARK_ERRORS as cause:
        raise DefinitionInvalid(
            f"Function {function.name}: class {function.body} cannot be used: "
            f"{_reason(cause)}. {_where(function)}"
        ) from cause
    kind, _, returned = answer.partition(" ")
    if kind not in _KINDS:
        raise Unsupported(f"Function {function.name}: class {function.body} is {returned}")
    returns = function.returns or returned
    if not returns:
        raise DefinitionInvalid(
            f"Function {function.name}: class {function.body} does not declare its return type; "
            "add RETURNS and a type of Spark."
        )
    return replace(function, kind=_KINDS[kind], returns=returns)


def register_java(session: SparkSession, function: CreatedFunction, files: FunctionFiles) -> None:
    """Register or replace *function* in *session*. Raises Spark's errors."""
    ship(session, function, files)
    parser = spark_parser(session)
    returned = parser.parseDataType(function.returns)
    parameters = None
    if function.parameters is not None:
        parameters = (
            parser.parseRoutineParam(function.parameters) if function.parameters else no_columns(session)
        )
    builder = users_functions(session).builder(
        function.name,
        _names(session, function),
        function.body,
        returned,
        parameters,
        function.deterministic is not False,
    )
    registry = state_of(session).functionRegistry()
    registry.dropFunction(identifier_of(session, function.name))
    registry.createOrReplaceTempFunction(function.name, builder, "java_udf")


def ship(session: SparkSession, function: CreatedFunction, files: FunctionFiles) -> None:
    """Distribute the files of a function to the driver and to current and future executors.

    Spark ignores a file that has already been added.
    """
    context = session._jsc.sc()
    for file in function.files:
        context.addFile(files.path(file))


def _names(session: SparkSession, function: CreatedFunction) -> Any:
    return java_strings(session, [f"{each.content}.jar" for each in function.files])


def users_functions(session: SparkSession) -> Any:
    """Return our Java class that creates expressions for calls of user-defined functions."""
    return own_class(session, _BUILDERS)


def _where(function: CreatedFunction) -> str:
    if function.files:
        return "Give the full name of a public class of the jars that has a constructor without parameters."
    return "Name its jar with USING JAR 'path'."


def _reason(cause: Exception) -> str:
    java = getattr(cause, "java_exception", None)
    return str(java.toString() if java is not None else cause).partition("\n")[0]
