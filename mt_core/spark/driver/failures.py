"""Translation of the errors of Spark and py4j to those of Freshtable.

A failed call into Spark surfaces in one of four ways: a Java exception that py4j wraps, a PySpark exception
that captured one, an exception of PySpark's own, or a broken connection. The caller needs to know which of
three cases it is. The statement is wrong (QueryFailed), Spark is temporarily unavailable (EngineUnavailable),
or something failed (EngineError). `translate` decides this from the chain of Java causes. The innermost
exception with a Spark error condition contains the reason. The exceptions around it only name the component
that failed. The line and the position come from the statement's own context, never from that of a view.

Messages are cleaned up for a reader of SQL: they have no stack traces, plans or Java class names, and no
passwords in URLs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from mt_core.base.secrets import without_passwords
from mt_core.errors import Canceled, EngineError, EngineUnavailable, MtError, QueryFailed

SPARK_ERRORS = (Py4JError, PySparkException, OSError, EOFError)
"""The exceptions that calls into Spark may raise."""

UNKNOWN_TO_JAVA = "does not exist in the JVM"
"""A part of py4j's message for a class or method that the JVM does not have.

py4j also raises it for any class or method while the JVM does not answer.
"""
LOST = "Spark went away and is being restarted; repeat the statement in a few seconds."
SILENT = "Spark stopped answering and is being restarted; repeat the statement in a few seconds."
_MORE_MEMORY = (
    "LIMIT its rows, write them to a table, or raise spark.driver.memory, on a cluster spark.executor.memory"
)
NO_MEMORY = (
    "Spark ran out of memory and is being restarted; repeat the statement in a few seconds. "
    f"If the statement itself needs too much memory, it fails again: {_MORE_MEMORY}."
)
_JVM_WITHOUT_MEMORY = "java.lang.OutOfMemoryError"
_OUT_OF_MEMORY = re.compile(
    rf"{re.escape(_JVM_WITHOUT_MEMORY)}|org\.apache\.arrow\.memory\.OutOfMemoryException"
)
MOST_CAUSES = 20
_CANCELED = frozenset({"SPARK_JOB_CANCELLED", "OPERATION_CANCELED"})
_STOPPED = re.compile(
    r"stopped SparkContext|SparkContext was shut down|SparkContext has been shutdown", re.IGNORECASE
)
_ZERO_BASED = re.compile(r"\bline (\d+),? pos (\d+)")
# Match only the statement's own context: "== SQL of VIEW v (line 1, position 8) ==" refers to another text.
_ONE_BASED = re.compile(r"== SQL \(line (\d+), position (\d+)\) ==")
_TAIL = re.compile(
    r"\s*;? ?\(?\bline \d+,? pos \d+\)?;?.*|\s*== SQL.*|;\n['~]*[A-Z]\w+[ \n].*|\n"
    r"\s+at [\w.$]+.*|\n+\w+ stacktrace:.*",
    re.S,
)
# The traceback of an exception in a Python function that Spark called, up to the line with the error.
_PROXIED = re.compile(
    r"An exception was raised by the Python Proxy\. Return Message: Traceback .*\n(?=(?:\w+\.)*[A-Z]\w*: )",
    re.S,
)
_PYTHON_PREFIX = re.compile(r"^(?:\w+\.)*[A-Z]\w*: ")
_CLASS_PREFIX = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_OF_ALL_SESSIONS = (
    " Leave the database out: CREATE FUNCTION name … creates a function for all sessions "
    "and materialized tables."
)
_WAYS_OUT = {
    # Without Hive, Spark can create functions only from subclasses of its own class of aggregates.
    "NO_HANDLER_FOR_UDAF": _OF_ALL_SESSIONS,
    "MISSING_CATALOG_ABILITY.CREATE_FUNCTION": _OF_ALL_SESSIONS,
}
_STREAM_AS_BATCH = "Queries with streaming sources must be executed with writeStream.start()"
_NO_END = (
    "A batch query cannot read an unbounded table, such as one with the connector 'datagen' or "
    "'rate'; give a table of 'datagen' a 'number-of-rows', or SET 'execution.runtime-mode' = 'streaming'."
)
_LATER_TYPES = re.compile(
    r"^Invalid schema for v\d+:\s*((?:- Invalid type for .+?: \w+ is not supported until v\d+\s*)+)$"
)
_LATER_TYPE = re.compile(r"- Invalid type for (.+?): (\w+) is not supported until v(\d+)")
_STACK_OVERFLOW = "java.lang.StackOverflowError"
_QUERY_CLASSES = (
    "org.apache.spark.",
    "java.lang.IllegalArgumentException",
    "java.lang.NumberFormatException",
    "java.lang.ArithmeticException",
    "java.lang.UnsupportedOperationException",
    "java.time.",
    "org.apache.iceberg.exceptions.AlreadyExistsException",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thrown:
    """A Java exception: its class and message, and its error condition and SQLSTATE if Spark set them."""

    java_class: str
    message: str
    condition: str | None = None
    sqlstate: str | None = None


def translate(error: BaseException) -> MtError:
    """Return *error*, raised by a call into Spark, as one of our errors. An MtError is returned unchanged."""
    match error:
        case MtError():
            return error
        case Py4JJavaError() | CapturedException():
            chain = thrown_by(error)
            if not chain:
                text = str(getattr(error, "_desc", error))
                chain = [Thrown(java_class="org.apache.spark.SparkException", message=text)]
            return error_of(chain)
        case Py4JNetworkError() | OSError() | EOFError():
            return EngineUnavailable(LOST)
        case PySparkException() if isinstance(error.__context__, (Py4JError, OSError, EOFError)):
            # PySpark rewraps some connection failures as if the statement had been wrong.
            return translate(error.__context__)
        case PySparkException():
            return QueryFailed(
                plain_message(str(error)), error_class=error.getCondition(), sqlstate=error.getSqlState()
            )
        case Py4JError() if "Trace:" not in str(error):
            # Without a Java stack trace, the JVM did not answer, and py4j raised its most general error.
            return EngineUnavailable(LOST)
        case _:
            return EngineError(f"Spark failed: {plain_message(str(error))}")


def ends_process(error: MtError) -> bool:
    """Return whether the JVM exits after *error*, a result of `translate`, because it is out of memory."""
    return _JVM_WITHOUT_MEMORY in error.message


def error_of(chain: Sequence[Thrown]) -> MtError:
    """Return the error for a Java exception and its causes, outermost first."""
    if any(thrown.condition in _CANCELED for thrown in chain):
        return Canceled("The statement was cancelled.")
    if any(_STOPPED.search(thrown.message) for thrown in chain):
        return EngineUnavailable(LOST)
    if any(thrown.java_class == _STACK_OVERFLOW for thrown in chain):
        return QueryFailed("The query is nested too deeply for Spark, or one of its views reads itself.")
    for thrown in chain:
        if match := _LATER_TYPES.match(thrown.message):
            return QueryFailed(_later_types(match[1]))
    # The innermost exception with a condition has the reason.
    index = max((index for index, thrown in enumerate(chain) if thrown.condition), default=0)
    reason = chain[index]
    message = plain_message(reason.message)
    causes = [plain_message(cause.message) for cause in chain[index + 1 :] if cause.message]
    if causes and causes[-1] not in message:
        message += f" Caused by: {causes[-1]}"
    message = _with_way_out(message, reason.condition or "")
    is_internal = (reason.condition or "").startswith("INTERNAL_ERROR")
    if is_internal or not (reason.condition or reason.java_class.startswith(_QUERY_CLASSES)):
        return EngineError(f"{reason.java_class.rsplit('.', 1)[-1]}: {message}")
    positions = [position_in(thrown.message) for thrown in chain[: index + 1]]
    line, column = next(filter(None, positions), (None, None))
    return QueryFailed(
        message, error_class=reason.condition, sqlstate=reason.sqlstate, line=line, position=column
    )


def _with_way_out(message: str, condition: str) -> str:
    if match := _OUT_OF_MEMORY.search(message):
        return (
            f"Spark ran out of memory for the statement: {message[match.start() :].rstrip('.')}; "
            f"{_MORE_MEMORY}."
        )
    return _NO_END if _STREAM_AS_BATCH in message else message + _WAYS_OUT.get(condition, "")


def _later_types(text: str) -> str:
    """Return the message for column types that require a later version of Iceberg's table format."""
    columns = _LATER_TYPE.findall(text)
    untyped = [name for name, kind, _ in columns if kind == "unknown"]
    others = [f"{name} ({kind})" for name, kind, _ in columns if kind != "unknown"]
    version = max(int(version) for *_, version in columns)
    parts = []
    if untyped:
        parts.append(
            f"Column {', '.join(untyped)} has no type, because NULL has none; "
            "CAST it to one, for example CAST(NULL AS STRING)."
        )
    if others:
        parts.append(
            f"Iceberg can store column {', '.join(others)} only from version {version} of its format on; "
            f"create the table with the property 'format-version' = '{version}', or CAST the column, "
            "for example to STRING."
        )
    return " ".join(parts)


def thrown_by(error: BaseException) -> list[Thrown]:
    """Return the Java exception behind *error* and its causes, outermost first.

    The list is empty if *error* was not raised by the JVM.
    """
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    chain: list[Thrown] = []
    while java is not None and len(chain) < MOST_CAUSES:
        is_sparks = is_instance_of(SparkContext._gateway, java, "org.apache.spark.SparkThrowable")
        chain.append(
            Thrown(
                java_class=str(java.getClass().getName()),
                message=str(java.getMessage() or ""),
                condition=java.getCondition() if is_sparks else None,
                sqlstate=java.getSqlState() if is_sparks else None,
            )
        )
        java = java.getCause()
    return chain


def java_classes(error: BaseException) -> tuple[str, ...]:
    """Return the class names of `thrown_by(error)`."""
    return tuple(thrown.java_class for thrown in thrown_by(error))


def position_in(text: str) -> tuple[int, int] | None:
    """Return the line and position in Spark's message *text*, both counted from 1, or None without them."""
    if match := _ONE_BASED.search(text):
        return int(match[1]), int(match[2])
    if match := _ZERO_BASED.search(text):
        return int(match[1]), int(match[2]) + 1
    return None


def plain_message(text: str) -> str:
    """Return Spark's message *text* without stack trace, plan, quoted statement, class name and passwords.

    If Spark called a Python function that raised an exception, only that error remains.
    """
    if match := _PROXIED.search(text):
        text = _PYTHON_PREFIX.sub("", text[match.end() :])
    return without_passwords(_TAIL.sub("", _CLASS_PREFIX.sub("", text)).strip()) or "Spark gave no reason."
