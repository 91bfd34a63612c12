"""The driver's port to users' functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, QueryFailed, Unsupported
from mt_core.model.function import CreatedFunction


class FunctionUncallable(QueryFailed):
    """A query calls a created function that cannot be registered, for example because its file is missing.

    The error is temporary if `loading` is true.
    """

    internal = True
    loading = False


class FunctionLoading(DefinitionInvalid):
    """A function cannot be registered yet, because its module is still being loaded."""

    internal = True


class SessionFunctions(Protocol):
    """Registers created functions in Spark sessions. Thread-safe."""

    def apply(self, session: SparkSession) -> None:
        """Register the current functions in *session*; functions that fail are logged and left out."""

    def explained(self, error: QueryFailed) -> QueryFailed:
        """Return *error*, or the reason why the created function that Spark did not find cannot be called."""

    def checked(
        self, session: SparkSession, function: CreatedFunction, check: Callable[[], object] = lambda: None
    ) -> CreatedFunction:
        """Return the validated *function* in the form in which it is stored.

        *session* has the catalogs of the function, and must not be used afterwards. *check* is called
        repeatedly; an error that it raises ends the work. Raises DefinitionInvalid.
        """

    def register(self, session: SparkSession, function: CreatedFunction) -> None:
        """Register *function*, in its stored form, in *session*; raises Spark's errors and MtError."""


class NoFunctions(SessionFunctions):
    """Sessions with only Spark's own functions."""

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
