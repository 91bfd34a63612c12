"""The tokens of a running gateway: configured tokens, a generated one, and that of its own scheduler."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mt_core.base.access import Role, Token
from mt_core.base.secrets import Secret
from mt_core.errors import ConfigError

SCHEDULER = "scheduler"
_BYTES = 32


def gateway_tokens(configured: Sequence[Token], file: Path) -> tuple[Token, ...]:
    """Return the tokens that grant access, with that of the gateway's own scheduler last.

    The result is empty if no tokens are *configured*. A generated token is stored in *file*, which is created
    with mode 0600 if it does not exist.
    """
    if not configured:
        return ()
    own = Token(name=SCHEDULER, role=Role.REFRESH, secret=Secret(secrets.token_urlsafe(_BYTES)))
    return (
        *(token if token.secret else replace(token, secret=_generated(file)) for token in configured),
        own,
    )


def _generated(file: Path) -> Secret:
    try:
        if not file.exists():
            _write(file, secrets.token_urlsafe(_BYTES))
        file.chmod(0o600)
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(
            f"{file}, the generated token, cannot be used: {cause}; remove the file."
        ) from cause
    if not text:
        raise ConfigError(f"{file}, the generated token, is empty; remove the file.")
    return Secret(text)


def _write(file: Path, text: str) -> None:
    # Write to a temporary file first, so that a killed start cannot leave an incomplete token.
    staged = file.with_suffix(f".{os.getpid()}.tmp")
    with os.fdopen(
        os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii"
    ) as stream:
        stream.write(text + "\n")
    staged.replace(file)
