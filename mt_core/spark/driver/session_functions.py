"""The driver's interface to user-defined functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, QueryFailed, Unsupported
from mt_core.model.function import CreatedFunction


class FunctionUncallable(QueryFailed):
    """Raised if a query calls a created function that cannot be registered, for example without its file.

    The error is temporary if `loading` is true.
    """

    internal = True
    loading = False


class FunctionLoading(DefinitionInvalid):
    """Raised if a function cannot be registered yet, because its module is still being loaded."""

    internal = True


class SessionFunctions(Protocol):
    """Registers created functions in Spark sessions. Thread-safe."""

    def apply(self, session: SparkSession) -> None:
        """Register the current functions in *session*. Functions that fail are logged and left out."""

    def explained(self, error: QueryFailed) -> QueryFailed:
        """Return *error* or, if Spark did not find a created function, the reason why it cannot be called."""

    def checked(
        self, session: SparkSession, function: CreatedFunction, check: Callable[[], object] = lambda: None
    ) -> CreatedFunction:
        """Return the validated *function* in the form in which it is stored.

        *session* must have the catalogs of the function, and must not be used afterwards. *check* is called
        repeatedly, and an error that it raises ends the work. Raises DefinitionInvalid.
        """

    def register(self, session: SparkSession, function: CreatedFunction) -> None:
        """Register *function*, in its stored form, in *session*. Raises Spark's errors and MtError."""


class NoFunctions(SessionFunctions):
    """Sessions that have only Spark's own functions."""

    def apply(self, session: SparkSession) -> None:
        return

    def explained(self, error: QueryFailed) -> QueryFailed:
        return error

    def checked(
        self, session: SparkSession, function: CreatedFunction, check: Callable[[], object] = lambda: None
    ) -> CreatedFunction:
        raise Unsupported(f"Function {function.name}: this driver does not support created functions.")

    def register(self, session: SparkSession, function: CreatedFunction) -> None:
        raise Unsupported(f"Function {function.name}: this driver does not support created functions.")
