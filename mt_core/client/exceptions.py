"""The exceptions of PEP 249, and how errors of the gateway and of Spark are mapped to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mt_core.client.literals import OutOfRange, ParameterCount, UnknownType
from mt_core.client.values import UnreadableValue
from mt_core.errors import GatewayError, SqlSyntaxError


class Warning(Exception):
    """An important warning. The driver never raises it."""


class Error(Exception):
    """The base class of the driver's errors.

    `code` is the error code of the gateway. `error_class` is the error class of Spark, such as
    DIVIDE_BY_ZERO. `request_id` finds the failed request in the gateway's log; it is None for an error that
    the gateway did not report.
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        error_class: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.error_class, self.request_id = code, error_class, request_id


class InterfaceError(Error):
    """The program used a closed connection or cursor."""


class DatabaseError(Error):
    """The gateway or Spark rejected or failed a request."""


class DataError(DatabaseError):
    """A value does not fit, for example after a division by zero, an overflow or an invalid cast."""


class OperationalError(DatabaseError):
    """The gateway is unreachable, busy or failed, or the statement was cancelled."""


class IntegrityError(DatabaseError):
    """A table constraint such as NOT NULL was violated."""


class InternalError(DatabaseError):
    """The gateway has an internal error."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: its text, a name in it, or its parameters."""


class NotSupportedError(DatabaseError):
    """The gateway does not support the request."""


# Patterns for facts in the text of an error. They are needed because Flink's gateway sends only messages, and
# our refresh errors have no structured facts.
_IN_TEXT = {
    "error_class": re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]"),
    "sqlstate": re.compile(r"SQLSTATE: (\w{5})"),
}
_BY_SQLSTATE: Mapping[str, type[DatabaseError]] = {
    "0A": NotSupportedError,
    "21": DataError,
    "22": DataError,
    "23": IntegrityError,
    "42": ProgrammingError,
    "XX": InternalError,
}
_BY_CODE: Mapping[str, type[DatabaseError]] = {
    "INTERNAL": InternalError,
    "UNSUPPORTED": NotSupportedError,
    "CATALOG_UNSUPPORTED": NotSupportedError,
    "SQL_SYNTAX": ProgrammingError,
    "QUERY_FAILED": ProgrammingError,
    "DEFINITION_INVALID": ProgrammingError,
    "REQUEST_INVALID": ProgrammingError,
    "TABLE_NOT_FOUND": ProgrammingError,
    "NOT_MATERIALIZED_TABLE": ProgrammingError,
    "TABLE_PROTECTED": ProgrammingError,
    "TABLE_EXISTS": ProgrammingError,
    "PLAN_INVALID": ProgrammingError,
    "PLAN_NOT_FOUND": ProgrammingError,
    "PLAN_EXISTS": ProgrammingError,
}


def _database_error(error: GatewayError) -> DatabaseError:
    error_class, sqlstate = _spark_fact(error, "error_class"), _spark_fact(error, "sqlstate")
    kind = _BY_CODE.get(error.code, OperationalError)
    if kind is ProgrammingError and sqlstate is not None:
        kind = _BY_SQLSTATE.get(sqlstate[:2], kind)
    if error_class is not None and error_class.startswith("NOT_NULL"):
        kind = IntegrityError
    return kind(error.message, code=error.code, error_class=error_class, request_id=error.request_id)


def _spark_fact(error: GatewayError, name: str) -> str | None:
    if name in error.facts:
        return str(error.facts[name])
    match = _IN_TEXT[name].search(error.message)
    return match[1] if match else None


@contextmanager
def translating() -> Iterator[None]:
    """Convert errors raised in the block to the exceptions of PEP 249."""
    try:
        yield
    except GatewayError as cause:
        raise _database_error(cause) from cause
    except SqlSyntaxError as cause:
        raise ProgrammingError(str(cause), code=cause.code) from cause
    except (ParameterCount, UnknownType) as cause:
        raise ProgrammingError(str(cause)) from cause
    except (OutOfRange, UnreadableValue) as cause:
        raise DataError(str(cause)) from cause
