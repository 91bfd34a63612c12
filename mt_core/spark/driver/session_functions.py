"""What the driver's sessions need of users' functions: the port to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid, QueryFailed, Unsupported
from mt_core.model.function import CreatedFunction


class FunctionUncallable(QueryFailed):
    """A query calls a function that statements created, and that no session can have now:
    its file may be missing.

    One that is *loading* passes by itself.
    """

    internal = True
    loading = False


class FunctionLoading(DefinitionInvalid):
    """The module of a function is being loaded, so that no session can have the function yet."""

    internal = True


class SessionFunctions(Protocol):
    """Gives Spark sessions the functions that statements created. Any thread."""

    def apply(self, session: SparkSession) -> None:
        """Give *session* the functions as they are now; logs those that cannot be,
        which are missing there then.
        """

    def explained(self, error: QueryFailed) -> QueryFailed:
        """Return *error*, or why a function cannot be called if it is that Spark does not know one
        that statements created.
        """

    def checked(
        self, session: SparkSession, function: CreatedFunction, check: Callable[[], object] = lambda: None
    ) -> CreatedFunction:
        """Return *function* as it is kept; *session*, which becomes useless, has its catalogs.

        *check* is called again and again meanwhile, and its error ends the work. Raises DefinitionInvalid.
        """

    def register(self, session: SparkSession, function: CreatedFunction) -> None:
        """Register *function*, as it is kept, in *session*; raises Spark's errors, and MtError."""


class NoFunctions(SessionFunctions):
    """Sessions with Spark's own functions alone."""

    def apply(self, session: SparkSession) -> None:
        return

    def explained(self, error: QueryFailed) -> QueryFailed:
        return error

    def checked(
        self, session: SparkSession, function: CreatedFunction, check: Callable[[], object] = lambda: None
    ) -> CreatedFunction:
        raise Unsupported(f"Function {function.name}: this driver keeps no functions.")

    def register(self, session: SparkSession, function: CreatedFunction) -> None:
        raise Unsupported(f"Function {function.name}: this driver keeps no functions.")
