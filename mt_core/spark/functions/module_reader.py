"""Module reader: a program that imports a user's module and reports the declarations of its functions.

The gateway must know the return type and the parameters of a Python function, and only importing its module
reveals them. Importing runs arbitrary code, which may exit, crash or hang. The gateway therefore runs this
program as a child process, `python -m mt_core.spark.functions.module_reader`, so that a bad module damages
only that process.

The request is JSON on standard input. The response is one line of JSON on a separate file descriptor,
because a module may print to standard output. PySpark's decorators usually need a JVM to parse types given
as text. Here, they are replaced by stand-ins, and the text is passed to the gateway unparsed.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import json
import os
import platform
import signal
import sys
import traceback
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, get_type_hints

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, udf
from pyspark.sql.pandas.typehints import infer_eval_type_for_udf
from pyspark.sql.types import DataType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.udtf import UserDefinedTableFunction
from pyspark.util import PythonEvalType

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.function import Analyze, PythonDeclaration, PythonForm, PythonParameter
from mt_core.spark.functions.python_types import spark_type
from mt_core.spark.functions.user_modules import bare, load_module

# Python's import machinery and our own files, which appear in every traceback of a module.
_NOT_OF_USERS = ("<frozen ", str(Path(__file__).parent), importlib.__file__)
_PR_SET_PDEATHSIG = 1
_MOST_NAMES = 10
_LONGEST_ERROR = 10_000
"""In characters: a module can raise an error with a text of any length."""


class _Text(DataType):
    """A type that a module declares as text, which the gateway parses."""

    def __init__(self, text: str) -> None:
        self.text = text


def main(answer: int, gateway: int) -> None:
    """Respond to the request on standard input and exit without running the module's exit handlers."""
    os.set_inheritable(answer, False)
    _end_with(gateway)
    question = json.load(sys.stdin)
    try:
        declarations = _declarations(question)
        response = json.dumps({"found": {name: each.to_json() for name, each in declarations.items()}})
    except (DefinitionInvalid, Unsupported) as error:
        response = json.dumps({"code": error.code, "error": error.message[:_LONGEST_ERROR]})
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        out.write(f"{response}\n")
    os._exit(0)


def _end_with(gateway: int) -> None:
    """Have the kernel kill this process when the gateway exits.

    If memory runs out, the kernel kills this process before the gateway.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != gateway:
        os._exit(1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _declarations(question: Mapping[str, Any]) -> Mapping[str, PythonDeclaration]:
    """Return the declarations of the requested object and of all other functions in its module."""
    function, body = str(question["function"]), str(question["body"])
    module, _, name = body.rpartition(".")
    _without_a_jvm(question["settings"])
    loaded = _load(function, str(question["root"]), [(a, b, c) for a, b, c in question["parts"]], module)
    target = getattr(loaded, name, None)
    if target is None:
        names = sorted(key for key, each in vars(loaded).items() if _is_of(loaded, each) and key[:1] != "_")
        raise DefinitionInvalid(
            f"Function {function}: module {module} has no {name}; "
            f"it has {', '.join(names[:_MOST_NAMES]) or 'no functions'}."
        )
    declared = {name: _read(function, body, target)}
    for key, each in vars(loaded).items():
        if key != name and _is_of(loaded, each):
            with suppress(DefinitionInvalid, Unsupported):
                declared[key] = _read(function, key, each)
    return declared


def _load(function: str, root: str, parts: Sequence[tuple[str, str, str]], module: str) -> ModuleType:
    try:
        return load_module(root, parts, module) if parts else importlib.import_module(module)
    except zipfile.BadZipFile as cause:
        archives = ", ".join(shown for stem, _, shown in parts if not stem)
        raise DefinitionInvalid(
            f"Function {function}: an ARCHIVE is a zip file or a wheel with modules of Python; "
            f"{archives} is not one."
        ) from cause
    except (Exception, SystemExit) as cause:
        reason = _failure(cause).replace(f"{root}.", "")
        raise DefinitionInvalid(
            f"Function {function}: module {module} cannot be loaded: {reason}."
        ) from cause


def _without_a_jvm(settings: Mapping[str, str]) -> None:
    """Make PySpark's decorators work without a JVM, using *settings* instead of those of a session."""
    vars(udf)["_parse_datatype_string"] = _Text
    # The gateway checks the types. setattr is used because mypy rejects an assignment.
    setattr(UserDefinedFunction, "_check_return_type", staticmethod(lambda *_: None))  # noqa: B010
    stand_in: Any = SimpleNamespace(conf=settings)
    SparkSession._instantiatedSession = stand_in


def _is_of(module: ModuleType, target: Any) -> bool:
    kinds = (FunctionType, type, UserDefinedFunction, UserDefinedTableFunction)
    return isinstance(target, kinds) and getattr(bare(target), "__module__", "") == module.__name__


def _failure(cause: BaseException) -> str:
    """Return the text of an error in a user's code, with its file and line."""
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"SyntaxError: {cause.msg} ({cause.filename}, line {cause.lineno})"
    text = f"{type(cause).__name__}: {cause}"
    places = [
        each
        for each in traceback.extract_tb(cause.__traceback__)
        if not each.filename.startswith(_NOT_OF_USERS)
    ]
    return f"{text} ({places[-1].filename}, line {places[-1].lineno})" if places else text


# ----------------------------------------------------------------------------------------------- declarations


def _read(function: str, body: str, target: Any) -> PythonDeclaration:
    try:
        if isinstance(target, UserDefinedTableFunction) or (
            isinstance(target, type) and hasattr(target, "eval")
        ):
            return _of_rows(function, body, target)
        return _of_values(function, body, target)
    except (DefinitionInvalid, Unsupported):
        raise
    except (Exception, SystemExit) as cause:
        # Reading may also run users' code, in type hints and in properties of their objects.
        raise DefinitionInvalid(f"Function {function}: {body} cannot be read: {_failure(cause)}.") from cause


def _of_rows(function: str, body: str, target: Any) -> PythonDeclaration:
    handler, is_made = bare(target), isinstance(target, UserDefinedTableFunction)
    analyze = Analyze.NONE
    if hasattr(handler, "analyze"):
        is_static = isinstance(inspect.getattr_static(handler, "analyze"), staticmethod)
        analyze = Analyze.STATIC if is_static else Analyze.OTHER
    returns, returns_json = _type(function, body, target._returnType) if is_made else ("", "")
    return PythonDeclaration(
        python=python_version(),
        form=PythonForm.ROWS,
        name=handler.__name__,
        is_made=is_made,
        eval_type=int(target.evalType) if is_made else 0,
        is_deterministic=bool(target.deterministic) if is_made else False,
        returns=returns,
        returns_json=returns_json,
        analyze=analyze,
    )


def _of_values(function: str, body: str, target: Any) -> PythonDeclaration:
    is_made = hasattr(target, "evalType")
    plain = bare(target)
    name = str(getattr(plain, "__name__", body.rpartition(".")[2]))
    if not is_made and (not callable(target) or isinstance(target, type)):
        return PythonDeclaration(python=python_version(), form=PythonForm.NOTHING, name=name)
    form = PythonForm.VALUE
    if not is_made:
        is_generator, is_coroutine = inspect.isgeneratorfunction(plain), inspect.iscoroutinefunction(plain)
        form = PythonForm.GENERATOR if is_generator else PythonForm.COROUTINE if is_coroutine else form
    signature, parameters = _parameters(plain)
    hints, no_hints = _hints(plain)
    if is_made:
        returns, returns_json = _type(function, body, target.returnType)
    else:
        returns, returns_json = spark_type(hints.get("return")) or "", ""
    return PythonDeclaration(
        python=python_version(),
        form=form,
        name=name,
        is_made=is_made,
        eval_type=int(target.evalType) if is_made else _eval_type(plain),
        is_deterministic=bool(target.deterministic) if is_made else True,
        returns=returns,
        returns_json=returns_json,
        signature=signature,
        parameters=None
        if parameters is None
        else tuple(
            PythonParameter(
                name=each.name,
                kind=each.kind.name,
                type=spark_type(hints.get(each.name)) or "",
                has_default=each.default is not inspect.Parameter.empty,
            )
            for each in parameters
        ),
        no_hints=no_hints,
    )


def _type(function: str, body: str, declared: DataType | str | None) -> tuple[str, str]:
    """Return a type either as text or as Spark's JSON. The other item is empty.

    Raises Unsupported for a user-defined type.
    """
    if isinstance(declared, _Text):
        return declared.text, ""
    if declared is None or isinstance(declared, str):
        return declared or "", ""
    if has_users_type(declared.jsonValue()):
        raise Unsupported(
            f"Function {function}: {body} returns {declared.simpleString()}, a type that is a class in "
            "Python; return one of Spark's own types, such as a struct of its fields."
        )
    return "", declared.json()


def has_users_type(value: Any) -> bool:
    """Return whether a type in JSON contains a user-defined type.

    PySpark would import or unpickle the class of such a type.
    """
    if isinstance(value, Mapping):
        return value.get("type") == "udt" or any(map(has_users_type, value.values()))
    return isinstance(value, list) and any(map(has_users_type, value))


def _parameters(plain: Any) -> tuple[str, Sequence[inspect.Parameter] | None]:
    try:
        signature = inspect.signature(plain)
    except (TypeError, ValueError):
        # Some built-in functions, such as max, have no signature.
        return "", None
    return str(signature), list(signature.parameters.values())


def _hints(plain: Any) -> tuple[Mapping[str, Any], str]:
    try:
        return get_type_hints(plain), ""
    except (AttributeError, NameError, SyntaxError, TypeError) as cause:
        return {}, str(cause)


def _eval_type(plain: Any) -> int:
    """Return PySpark's evaluation type of a plain function.

    It is pandas or Arrow if its type hints say so, and row by row if not.
    """
    try:
        return int(infer_eval_type_for_udf(plain) or PythonEvalType.SQL_BATCHED_UDF)
    except (PySparkException, AttributeError, NameError, SyntaxError, TypeError, ValueError):
        # The type hints have another form or cannot be read. The gateway reports that if it needs them.
        return PythonEvalType.SQL_BATCHED_UDF


def python_version() -> str:
    """Return the major and minor version of Python, such as 3.11."""
    return ".".join(platform.python_version_tuple()[:2])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
