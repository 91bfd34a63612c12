"""Functions in Python: PySpark's udf and udtf objects, and plain functions, from files or modules.

The gateway has only the *declaration* of such an object (`PythonDeclaration`), never the object itself.
This module builds an equivalent PySpark object from the declaration, with a `SentFunction` in place of the
user's code, and registers it in a session.

Types can be declared in CREATE FUNCTION and in Python. A decorated object has a type of its own, which
RETURNS must match. For a plain function, RETURNS takes precedence over the type hint. A plain class needs
RETURNS or a method `analyze`. Parameters without a type are VOID, which accepts any argument.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import DataType, StructType, _parse_datatype_json_value
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.udtf import UserDefinedTableFunction
from pyspark.util import PythonEvalType

from mt_core.base.identifiers import quote
from mt_core.base.plural import plural
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.function import Analyze, CreatedFunction, FunctionKind, PythonDeclaration, PythonForm
from mt_core.spark.driver.cluster import is_cluster
from mt_core.spark.driver.jvm_objects import state_of
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.java_functions import ship, users_functions
from mt_core.spark.functions.module_reader import has_users_type
from mt_core.spark.functions.python_code import SentFunction
from mt_core.spark.functions.sql_functions import identifier_of, no_columns, spark_parser

_KINDS = {
    PythonEvalType.SQL_BATCHED_UDF: FunctionKind.SCALAR,
    PythonEvalType.SQL_ARROW_BATCHED_UDF: FunctionKind.SCALAR,
    PythonEvalType.SQL_SCALAR_PANDAS_UDF: FunctionKind.SCALAR,
    PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF: FunctionKind.SCALAR,
    PythonEvalType.SQL_SCALAR_ARROW_UDF: FunctionKind.SCALAR,
    PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF: FunctionKind.SCALAR,
    PythonEvalType.SQL_GROUPED_AGG_PANDAS_UDF: FunctionKind.AGGREGATE,
    PythonEvalType.SQL_GROUPED_AGG_ARROW_UDF: FunctionKind.AGGREGATE,
}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY.name, inspect.Parameter.POSITIONAL_OR_KEYWORD.name)
# The session settings that PySpark's decorators read.
_OF_DECORATORS = (
    "spark.sql.execution.pythonUDF.arrow.enabled",
    "spark.sql.execution.pythonUDTF.arrow.enabled",
)
_EXECUTABLE = "spark.pyspark.python"
# PySpark's default if the environment variable PYSPARK_PYTHON is not set.
_DEFAULT = "python3"
_ANY = "VOID"


def decorator_settings(session: SparkSession) -> Mapping[str, str]:
    """Return the Spark settings that PySpark's decorators read."""
    return {key: str(session.conf.get(key)) for key in _OF_DECORATORS}


def describe_python(session: SparkSession, function: CreatedFunction) -> CreatedFunction:
    """Return *function* with its kind and return type, as determined from its declaration.

    Raises DefinitionInvalid if its type is not declared, and Unsupported for other kinds of objects.
    """
    declared = _declaration(function)
    if declared.form is PythonForm.ROWS:
        return _described_table(session, function, _table(function, declared))
    if function.kind is FunctionKind.TABLE:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} returns a value, not a table; "
            "write RETURNS and a type, or a class whose method eval yields rows."
        )
    parser = spark_parser(session)
    # Parse the type with Spark, whose error messages are better than PySpark's.
    sql_type = str(parser.parseDataType(function.returns).sql()) if function.returns else ""
    scalar = _scalar(function, declared)
    kind = _KINDS.get(scalar.evalType)
    if kind is None:
        raise Unsupported(
            f"Function {function.name}: {function.body} changes whole groups or tables, which SQL cannot "
            "call; write a udf, a pandas_udf or an arrow_udf of columns, or a class with eval."
        )
    _check_parameters(session, function, declared)
    java: Any = session._jsparkSession
    returned = str(java.parseDataType(scalar.returnType.json()).sql())
    _check_same(function, sql_type or returned, returned)
    return replace(function, kind=kind, returns=returned)


def register_python(session: SparkSession, function: CreatedFunction, files: FunctionFiles) -> None:
    """Register or replace *function* in *session*. Raises Spark's errors and DefinitionInvalid."""
    declared = _declaration(function)
    ship(session, function, files)
    _set_python(session)
    java: Any = session._jsparkSession
    name = function.name
    if declared.form is PythonForm.ROWS:
        table = _table(function, declared)
        table.func = SentFunction(function, declared)
        if function.deterministic is not None:
            table.deterministic = function.deterministic
        state_of(session).tableFunctionRegistry().dropFunction(identifier_of(session, name))
        java.udtf().registerPython(name, table._judtf)
        return
    python = _scalar(function, declared)
    python.deterministic = python.deterministic and function.deterministic is not False
    builder = users_functions(session).python(name, python._judf, *_signature(session, function, declared))
    registry = state_of(session).functionRegistry()
    registry.dropFunction(identifier_of(session, name))
    registry.createOrReplaceTempFunction(name, builder, "python_udf")


def _declaration(function: CreatedFunction) -> PythonDeclaration:
    if function.declared is None:
        raise DefinitionInvalid(
            f"Function {function.name}: the declaration of {function.body} has not been read yet."
        )
    return function.declared


def _declared_type(function: CreatedFunction, declared: PythonDeclaration) -> DataType | str | None:
    """Return the type that a PySpark object declares, or None if it does not declare one.

    Raises DefinitionInvalid if it is not one of Spark's types.
    """
    if not declared.returns_json:
        return declared.returns or None
    try:
        type_json = json.loads(declared.returns_json)
        if has_users_type(type_json):
            raise ValueError("a class of users")
        return _parse_datatype_json_value(type_json)
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} declares a type that Spark does not have."
        ) from cause


def _set_python(session: SparkSession) -> None:
    """Run local workers with the gateway's Python and its packages, unless another Python is configured."""
    context: Any = session.sparkContext
    chosen = context.getConf().get(_EXECUTABLE)
    if chosen is not None:
        context.pythonExec = chosen
    elif not is_cluster(context.master) and context.pythonExec == _DEFAULT:
        context.pythonExec = sys.executable


# ----------------------------------------------------------------------------------------------------- values


def _scalar(function: CreatedFunction, declared: PythonDeclaration) -> Any:
    """Return a PySpark object that is equivalent to the user's object or plain function."""
    sent = SentFunction(function, declared)
    if declared.is_made:
        returned = _declared_type(function, declared) or ""
        return UserDefinedFunction(
            sent, returned, function.name, declared.eval_type, declared.is_deterministic
        )
    if declared.form is PythonForm.NOTHING:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} is not a function; "
            "name a function, a udf or udtf object, or a class with a method eval."
        )
    if declared.form is PythonForm.GENERATOR:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} yields several values; "
            "make it the method eval of a class, and write RETURNS TABLE (columns)."
        )
    if declared.form is PythonForm.COROUTINE:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} is asynchronous; write def, without async."
        )
    returns = function.returns or declared.returns
    if not returns:
        _check_hints(function, declared)
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} has no type hint for its result that is a type "
            "of Spark; add RETURNS and a type, or a hint such as -> int."
        )
    _python_signature(function, declared)
    return UserDefinedFunction(sent, returns, function.name, declared.eval_type)


def _python_signature(function: CreatedFunction, declared: PythonDeclaration) -> inspect.Signature:
    if declared.parameters is None:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} does not declare its parameters; "
            "write a function in Python that calls it."
        )
    return declared.python_signature()


def _check_hints(function: CreatedFunction, declared: PythonDeclaration) -> None:
    if declared.no_hints:
        raise DefinitionInvalid(
            f"Function {function.name}: the type hints of {function.body} cannot be read: "
            f"{declared.no_hints}."
        )


def _check_same(function: CreatedFunction, written: str, declared: str) -> None:
    if written != declared:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} is declared in Python to return {declared}, "
            f"not {written}; leave RETURNS out, or give both the same type."
        )


def _check_parameters(session: SparkSession, function: CreatedFunction, declared: PythonDeclaration) -> None:
    """Raise DefinitionInvalid if the Python function does not accept the parameters in CREATE FUNCTION."""
    if function.parameters is None:
        return
    fields = list(_declared(session, function).fields())
    if any(each.getDefault().isDefined() for each in fields):
        raise DefinitionInvalid(
            f"Function {function.name}: write the default of a parameter in Python, and leave it out."
        )
    try:
        _python_signature(function, declared).bind(*fields)
    except TypeError as cause:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body}{declared.signature} does not accept the "
            f"{len(fields)} {plural(len(fields), 'parameter')} ({function.parameters}): {cause}."
        ) from cause


def _declared(session: SparkSession, function: CreatedFunction) -> Any:
    return (
        spark_parser(session).parseRoutineParam(function.parameters)
        if function.parameters
        else no_columns(session)
    )


def _signature(
    session: SparkSession, function: CreatedFunction, declared: PythonDeclaration
) -> tuple[Any, int, int]:
    """Return the parameters (VOID if untyped), and the minimum and maximum number of arguments."""
    if function.parameters is not None:
        written = _declared(session, function)
        return written, written.size(), written.size()
    if not declared.is_made:
        _check_hints(function, declared)
    _python_signature(function, declared)
    columns, least, is_open = [], 0, False
    for each in declared.parameters or ():
        if each.kind in _POSITIONAL:
            # As in PySpark, the arguments of a decorated function are not converted.
            columns.append(f"{quote(each.name)} {(not declared.is_made and each.type) or _ANY}")
            least += not each.has_default
        else:
            is_open = True
    schema = spark_parser(session).parseTableSchema(", ".join(columns)) if columns else no_columns(session)
    return schema, least, sys.maxsize >> 32 if is_open else len(columns)


# ------------------------------------------------------------------------------------------------------- rows


def _table(function: CreatedFunction, declared: PythonDeclaration) -> Any:
    """Return a new PySpark udtf object, with the columns declared in CREATE FUNCTION or in Python."""
    handler = _handler(declared)
    if declared.is_made:
        columns: Any = _declared_type(function, declared)
        return UserDefinedTableFunction(
            handler, columns, function.name, declared.eval_type, declared.is_deterministic
        )
    if not function.returns and declared.analyze is Analyze.NONE:
        raise DefinitionInvalid(
            f"Function {function.name}: class {function.body} does not declare its columns; "
            "add RETURNS TABLE (columns), or @udtf(returnType=…) in Python."
        )
    return udtf(handler, returnType=function.returns or None)


def _handler(declared: PythonDeclaration) -> Any:
    """Return a stand-in for the user's class, with the methods that PySpark inspects."""
    methods: dict[str, Any] = {"eval": SentFunction.__call__}
    if declared.analyze is not Analyze.NONE:
        analyze = SentFunction.__call__
        methods["analyze"] = staticmethod(analyze) if declared.analyze is Analyze.STATIC else analyze
    return type(declared.name, (), methods)


def _described_table(session: SparkSession, function: CreatedFunction, table: Any) -> CreatedFunction:
    if function.returns and function.kind is not FunctionKind.TABLE:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} returns rows; "
            "write RETURNS TABLE (columns), or leave RETURNS out."
        )
    if function.parameters is not None:
        raise DefinitionInvalid(
            f"Function {function.name}: a table function in Python accepts arguments of any type; "
            "leave the parameters out."
        )
    declared: StructType | None = table.returnType
    if declared is None:
        return replace(function, kind=FunctionKind.TABLE)
    java: Any = session._jsparkSession
    columns = str(java.parseDataType(declared.json()).toDDL())
    if function.returns:
        _check_same(function, str(spark_parser(session).parseTableSchema(function.returns).toDDL()), columns)
    return replace(function, kind=FunctionKind.TABLE, returns=columns)
