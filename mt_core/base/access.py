"""Access control: a gateway's bearer tokens, their roles, and what each role may do."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address

from mt_core.base.secrets import MASK, Secret
from mt_core.errors import ConfigError

GENERATE = "generate"
_NAME = re.compile(r"[\w.@-]{1,64}")


class Role(StrEnum):
    """What the holder of a token may do: everything, run SQL, request refreshes, or read the status."""

    ADMIN = "admin"
    SQL = "sql"
    REFRESH = "refresh"
    READ = "read"


ALL, WORKERS = frozenset(Role), frozenset({Role.ADMIN, Role.SQL, Role.REFRESH})
SQL, REFRESH = frozenset({Role.ADMIN, Role.SQL}), frozenset({Role.ADMIN, Role.REFRESH})
READERS = SQL | {Role.READ}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token of the gateway, with the name and role of its holder.

    The secret is empty if the gateway is to generate it.
    """

    name: str
    role: Role = Role.ADMIN
    secret: Secret

    def __str__(self) -> str:
        return f"{self.name}:{self.role}:{MASK}"


def parse_tokens(text: str) -> tuple[Token, ...]:
    """Parse a comma-separated list of tokens: `name:role:secret`, a bare secret, or `generate`.

    A bare secret belongs to an admin named token-n, where n is its position in the list. Raises ConfigError
    naming an invalid token.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    tokens = tuple(_token(part, number) for number, part in enumerate(parts, 1))
    names, secrets = [token.name for token in tokens], [token.secret.reveal() for token in tokens]
    for what, values in (("name", names), ("secret", secrets)):
        for number, value in enumerate(values, 1):
            if value in values[: number - 1]:
                raise ConfigError(f"token {number} has the {what} of another; give each its own.")
    return tokens


def find_token(tokens: Iterable[Token], sent: str) -> Token | None:
    """Return the token with the secret *sent*, or None.

    Secrets are compared in constant time, so the duration reveals nothing about them.
    """
    match = None
    for token in tokens:
        if hmac.compare_digest(token.secret.reveal().encode(), sent.encode()):
            match = token
    return match


def is_loopback(host: str) -> bool:
    """Return whether *host* is localhost or a loopback address, which only this machine can reach."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _token(text: str, number: int) -> Token:
    if text == GENERATE:
        return Token(name="generated", secret=Secret(""))
    if ":" not in text:
        return Token(name=f"token-{number}", secret=Secret(text))
    name, _, rest = text.partition(":")
    role, _, secret = rest.partition(":")
    if not (_NAME.fullmatch(name) and role in set(Role) and secret):
        raise ConfigError(
            f"token {number} cannot be used; expected name:role:secret with a role of {', '.join(Role)}, "
            "or a secret without a colon."
        )
    return Token(name=name, role=Role(role), secret=Secret(secret))
