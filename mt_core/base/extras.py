"""The package's optional extras, and which one to install when a package is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mt_core.errors import ConfigError


def installation(extra: str) -> str:
    """Return the instructions for installing *extra* from a checkout or a wheel."""
    return (
        f"install the extra '{extra}': pip install '.[{extra}]' in a checkout of Freshtable, "
        f"or pip install '<path of the wheel>[{extra}]'"
    )


@contextmanager
def requiring(extra: str, what: str) -> Iterator[None]:
    """Raise ConfigError if an import inside the block fails because a package of *extra* is not installed."""
    try:
        yield
    except ModuleNotFoundError as cause:
        raise ConfigError(f"{what} needs the package {cause.name}; {installation(extra)}.") from cause
