"""Functions in Python: objects of PySpark's, and plain functions, of files or of installed modules."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from typing import Any, get_type_hints

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.pandas.typehints import infer_eval_type_for_udf
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.udtf import UserDefinedTableFunction
from pyspark.util import PythonEvalType

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.identifiers import quote
from mt_core.model.function import CreatedFunction, FunctionKind
from mt_core.spark.driver.cluster import is_cluster
from mt_core.spark.driver.jvm_objects import state_of
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.java_functions import ship, users_functions
from mt_core.spark.functions.python_code import code_of, sent_code
from mt_core.spark.functions.python_types import spark_type
from mt_core.spark.functions.sql_functions import identifier_of, no_columns, spark_parser
from mt_core.spark.functions.user_modules import bare

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
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_EXECUTABLE = "spark.pyspark.python"
# What PySpark takes without the environment variable PYSPARK_PYTHON.
_DEFAULT = "python3"
_ANY = "VOID"


def described_python(session: SparkSession, function: CreatedFunction, files: FunctionFiles) -> CreatedFunction:
    """Return a function with the kind and the type that its object has.

    Raises DefinitionInvalid for an object that is not there or that does not say its type; Unsupported for one of another kind.
    """
    target = code_of(function, files)
    if _is_table(target):
        return _described_table(session, function, _table(function, target))
    if function.kind is FunctionKind.TABLE:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} gives a value, not a table; write RETURNS and a type, or a class "
            "whose method eval yields rows."
        )
    parser = spark_parser(session)
    # Spark's parser says what is wrong in a type, where PySpark's does not.
    written = str(parser.parseDataType(function.returns).sql()) if function.returns else ""
    made = _scalar(function, target)
    kind = _KINDS.get(made.evalType)
    if kind is None:
        raise Unsupported(
            f"Function {function.name}: {function.body} changes whole groups or tables, which SQL cannot call; write a udf, "
            "a pandas_udf or an arrow_udf of columns, or a class with eval."
        )
    _check_parameters(session, function, made.func)
    java: Any = session._jsparkSession
    declared = str(java.parseDataType(made.returnType.json()).sql())
    _check_same(function, written or declared, declared)
    return replace(function, kind=kind, returns=declared)


def register_python(session: SparkSession, function: CreatedFunction, files: FunctionFiles) -> None:
    """Register a function in *session*, in place of one of its name; raises Spark's errors, and DefinitionInvalid."""
    ship(session, function, files)
    _set_python(session)
    target = code_of(function, files)
    sent = sent_code(function, target)
    java: Any = session._jsparkSession
    name = function.name
    if _is_table(target):
        table = _table(function, target)
        table.func = sent
        if function.deterministic is not None:
            table.deterministic = function.deterministic
        state_of(session).tableFunctionRegistry().dropFunction(identifier_of(session, name))
        java.udtf().registerPython(name, table._judtf)
        return
    made = _scalar(function, target)
    is_deterministic = made.deterministic and function.deterministic is not False
    python = UserDefinedFunction(sent, made.returnType, name, made.evalType, is_deterministic)
    builder = users_functions(session).python(
        name, python._judf, *_signature(session, function, made.func, is_plain=made is not target)
    )
    registry = state_of(session).functionRegistry()
    registry.dropFunction(identifier_of(session, name))
    registry.createOrReplaceTempFunction(name, builder, "python_udf")


def _set_python(session: SparkSession) -> None:
    """Let the workers of a Spark in this machine have the packages of the gateway, unless its user chose a Python."""
    context: Any = session.sparkContext
    chosen = context.getConf().get(_EXECUTABLE)
    if chosen is not None:
        context.pythonExec = chosen
    elif not is_cluster(context.master) and context.pythonExec == _DEFAULT:
        context.pythonExec = sys.executable


# ----------------------------------------------------------------------------------------------------------------- values


def _scalar(function: CreatedFunction, target: Any) -> Any:
    """Return an object of PySpark's: *target* itself, or one of a plain function."""
    if hasattr(target, "evalType"):
        return target
    if not callable(target) or isinstance(target, type):
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} is no function; name a function, a udf or udtf object, or a class "
            "with a method eval."
        )
    if inspect.isgeneratorfunction(target):
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} yields several values; make it the method eval of a class, and write "
            "RETURNS TABLE (columns)."
        )
    if inspect.iscoroutinefunction(target):
        raise DefinitionInvalid(f"Function {function.name}: {function.body} is asynchronous; write def, without async.")
    returns = function.returns or spark_type(_hints(function, target).get("return"))
    if returns is None:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} has no type hint of what it returns that is a type of Spark; add "
            "RETURNS and a type, or a hint such as -> int."
        )
    return UserDefinedFunction(target, returns, function.name, _eval_type(function, target))


def _eval_type(function: CreatedFunction, target: Any) -> Any:
    """Return PySpark's kind of a plain function, by its hints: of columns of pandas or Arrow, else of one value after the other."""
    _python_signature(function, target)
    try:
        return infer_eval_type_for_udf(target) or PythonEvalType.SQL_BATCHED_UDF
    except (PySparkException, AttributeError, SyntaxError, TypeError):
        # Hints of neither pandas nor Arrow, or of nothing: where they are needed, they are read again.
        return PythonEvalType.SQL_BATCHED_UDF


def _python_signature(function: CreatedFunction, target: Any) -> inspect.Signature:
    try:
        return inspect.signature(target)
    except (TypeError, ValueError) as cause:
        # Some functions of C have none, such as max.
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} does not say its parameters; write a function in Python that calls it."
        ) from cause


def _hints(function: CreatedFunction, target: Any) -> dict[str, Any]:
    try:
        return get_type_hints(target)
    except (AttributeError, NameError, SyntaxError, TypeError) as cause:
        raise DefinitionInvalid(
            f"Function {function.name}: the type hints of {function.body} cannot be read: {cause}."
        ) from cause


def _check_same(function: CreatedFunction, written: str, declared: str) -> None:
    if written != declared:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} is declared in Python to return {declared}, not {written}; leave "
            "RETURNS out, or give both the same type."
        )


def _check_parameters(session: SparkSession, function: CreatedFunction, plain: Any) -> None:
    """Raise DefinitionInvalid for declared parameters that the function in Python does not take."""
    if function.parameters is None:
        return
    fields = list(_declared(session, function).fields())
    if any(each.getDefault().isDefined() for each in fields):
        raise DefinitionInvalid(
            f"Function {function.name}: write the default of a parameter in Python, and leave it out."
        )
    signature = _python_signature(function, plain)
    try:
        signature.bind(*fields)
    except TypeError as cause:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body}{signature} does not take the {len(fields)} parameters "
            f"({function.parameters}): {cause}."
        ) from cause


def _declared(session: SparkSession, function: CreatedFunction) -> Any:
    return spark_parser(session).parseRoutineParam(function.parameters) if function.parameters else no_columns(session)


def _signature(session: SparkSession, function: CreatedFunction, plain: Any, *, is_plain: bool) -> tuple[Any, int, int]:
    """Return the parameters, those of no certain type as VOID, and how many arguments there are at least and at most."""
    if function.parameters is not None:
        declared = _declared(session, function)
        return declared, declared.size(), declared.size()
    hints = _hints(function, plain) if is_plain else {}
    columns, least, is_open = [], 0, False
    for each in _python_signature(function, plain).parameters.values():
        if each.kind in _POSITIONAL:
            columns.append(f"{quote(each.name)} {spark_type(hints.get(each.name)) or _ANY}")
            least += each.default is inspect.Parameter.empty
        else:
            is_open = True
    schema = spark_parser(session).parseTableSchema(", ".join(columns)) if columns else no_columns(session)
    return schema, least, sys.maxsize >> 32 if is_open else len(columns)


# ------------------------------------------------------------------------------------------------------------------- rows


def _is_table(target: Any) -> bool:
    return isinstance(target, UserDefinedTableFunction) or (isinstance(target, type) and hasattr(target, "eval"))


def _table(function: CreatedFunction, target: Any) -> Any:
    """Return an object of PySpark's of its own, with the columns that CREATE FUNCTION or Python declares."""
    if not isinstance(target, UserDefinedTableFunction):
        if not function.returns and not hasattr(target, "analyze"):
            raise DefinitionInvalid(
                f"Function {function.name}: class {function.body} does not say its columns; add RETURNS TABLE (columns), or "
                "@udtf(returnType=…) in Python."
            )
        return udtf(target, returnType=function.returns or None)
    return UserDefinedTableFunction(
        bare(target), target._returnType, function.name, target.evalType, target.deterministic
    )


def _described_table(session: SparkSession, function: CreatedFunction, table: Any) -> CreatedFunction:
    if function.returns and function.kind is not FunctionKind.TABLE:
        raise DefinitionInvalid(
            f"Function {function.name}: {function.body} gives rows; write RETURNS TABLE (columns), or leave RETURNS out."
        )
    if function.parameters is not None:
        raise DefinitionInvalid(
            f"Function {function.name}: a class with rows takes its arguments as they are; leave the parameters out."
        )
    declared: StructType | None = table.returnType
    if declared is None:
        return replace(function, kind=FunctionKind.TABLE)
    java: Any = session._jsparkSession
    columns = str(java.parseDataType(declared.json()).toDDL())
    if function.returns:
        _check_same(function, str(spark_parser(session).parseTableSchema(function.returns).toDDL()), columns)
    return replace(function, kind=FunctionKind.TABLE, returns=columns)
