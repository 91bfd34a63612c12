"""Translates SQLAlchemy's exceptions to Freshtable's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from mt_core.errors import RegistryError, RegistryFull, RevisionConflict

# PostgreSQL aborts one of two transactions that block each other with one of these; it can be run again.
SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
LOCK_NOT_AVAILABLE = "55P03"
DISK_FULL = "53100"
# SQLite reports either code if the disk is full; the second one if the index of its log cannot grow.
_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})


@contextmanager
def translated(registry: str) -> Iterator[None]:
    """Raise RegistryError naming *registry*, or RevisionConflict if the transaction can be run again."""
    try:
        yield
    except SQLAlchemyError as cause:
        original = cause.orig if isinstance(cause, DBAPIError) else cause
        reason = " ".join(str(original).split()).rstrip(".")
        sqlstate = getattr(original, "sqlstate", None)
        if isinstance(cause, IntegrityError) or sqlstate in {SERIALIZATION_FAILURE, DEADLOCK}:
            raise RevisionConflict(
                f"Another transaction changed the same rows of registry {registry}; run it again: {reason}."
            ) from cause
        if sqlstate == LOCK_NOT_AVAILABLE or "database is locked" in reason:
            raise RegistryError(
                f"Registry {registry} is locked by another process; stop it, or try again later: {reason}."
            ) from cause
        if sqlstate == DISK_FULL or getattr(original, "sqlite_errorcode", None) in _FULL:
            raise RegistryFull(
                f"The disk of registry {registry} is full; make room there: {reason}."
            ) from cause
        raise RegistryError(
            f"Registry {registry} failed; check that it is reachable and whole: {reason}."
        ) from cause
