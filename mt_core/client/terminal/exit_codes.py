"""The exit codes of `freshtable sql`."""

from __future__ import annotations

from enum import IntEnum

from mt_core.client.http import GatewayRefused
from mt_core.errors import ConfigError, GatewayError, MtError, SessionLimit


class ExitCode(IntEnum):
    """What the process tells the shell."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130

    @classmethod
    def of(cls, error: MtError) -> ExitCode:
        """Return the code for a client that *error* ended."""
        match error:
            case ConfigError():
                return cls.USAGE
            case GatewayRefused() | GatewayError(code=SessionLimit.code):
                return cls.UNREACHABLE
            case _:
                return cls.FAILED
