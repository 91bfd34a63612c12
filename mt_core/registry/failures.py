"""Failures: what SQLAlchemy raises, told as errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from mt_core.errors import RegistryError, RevisionConflict

# PostgreSQL ends one of two transactions that got in each other's way with one of these: running it again helps.
SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
LOCK_NOT_AVAILABLE = "55P03"


@contextmanager
def translated(registry: str) -> Iterator[None]:
    """Raise RegistryError naming *registry*, or RevisionConflict where running the transaction again helps."""
    try:
        yield
    except SQLAlchemyError as cause:
        raise _error(registry, cause) from cause


def _error(registry: str, cause: SQLAlchemyError) -> RegistryError:
    reason = _reason(cause)
    if isinstance(cause, IntegrityError) or _sqlstate(cause) in {SERIALIZATION_FAILURE, DEADLOCK}:
        return RevisionConflict(
            f"Another transaction changed the same rows of registry {registry}; run it again: {reason}."
        )
    if _sqlstate(cause) == LOCK_NOT_AVAILABLE or "database is locked" in reason:
        return RegistryError(f"Registry {registry} is held by another process; end that, or try again later: {reason}.")
    return RegistryError(f"Registry {registry} failed; check that it is reachable and whole: {reason}.")


def _reason(cause: SQLAlchemyError) -> str:
    text = str(cause.orig if isinstance(cause, DBAPIError) else cause)
    return " ".join(text.split()).rstrip(".")


def _sqlstate(cause: SQLAlchemyError) -> str | None:
    """Return PostgreSQL's error code, or None for an error that has none."""
    return getattr(cause.orig, "sqlstate", None) if isinstance(cause, DBAPIError) else None
