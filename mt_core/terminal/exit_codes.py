"""The exit codes of `freshtable sql`."""

from __future__ import annotations

from enum import IntEnum

from mt_core.client.http import GatewayRefused
from mt_core.errors import ConfigError, GatewayError, MtError, SessionLimit


class ExitCode(IntEnum):
    """The exit code of the process."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130

    @classmethod
    def of(cls, error: MtError) -> ExitCode:
        """Return the exit code of a client that *error* stopped."""
        return cls.USAGE if isinstance(error, ConfigError) else cls.of_statement(error)

    @classmethod
    def of_statement(cls, error: MtError) -> ExitCode:
        """Return the exit code of a script in which a statement failed with *error*."""
        match error:
            case GatewayRefused() | GatewayError(code=SessionLimit.code):
                return cls.UNREACHABLE
            case _:
                return cls.FAILED
