"""Who reads the page: the visitor's name and role, in a cookie that is signed, and the key of its forms.

The token itself never leaves the sign-in form. The cookie contains the token's name, an expiry and a nonce,
and a signature whose key is the token's secret. So every gateway with the same tokens accepts it, no state is
kept, and it ends when the token is changed or removed. The key that forms must contain (against requests that
other sites send in the visitor's name) is a second signature of the same nonce.

A gateway without tokens has no sign-in. Its visitors get a cookie with a nonce alone, signed with a key of
this process, so that their forms need the key as well.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, unquote

from mt_core.base.access import READERS, SQL, Role, Token

COOKIE = "freshtable-ui"
LASTS = timedelta(days=7)
_LONGEST_COOKIE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A visitor with the name and role of their token. Without tokens the name is "" and the role is admin.

    `nonce` is different for each sign-in, and `csrf` is the text that the visitor's forms must contain.
    """

    name: str
    role: Role
    nonce: str
    csrf: str

    @property
    def may_act(self) -> bool:
        """Whether the visitor may run SQL, and refresh, suspend or verify tables."""
        return self.role in SQL

    def has_key(self, sent: str) -> bool:
        """Return whether *sent* is the key that the visitor's forms contain."""
        return hmac.compare_digest(self.csrf.encode(), sent.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitorCookies:
    """The cookies of visitors with one of *tokens*; `own_key` signs if there are none."""

    tokens: tuple[Token, ...]
    own_key: bytes

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> VisitorCookies:
        return cls(tokens=tuple(tokens), own_key=secrets.token_bytes(32))

    def sign_in(self, token: Token | None, now: datetime) -> tuple[str, Visitor]:
        """Return a new cookie and its visitor. *token* is None on a gateway without tokens."""
        name = "" if token is None else token.name
        expiry, nonce = int((now + LASTS).timestamp()), secrets.token_urlsafe(18)
        signed = f"{expiry}.{nonce}.{quote(name, safe='')}"
        cookie = f"{signed}.{_signature(self._key(token), signed)}"
        return cookie, self._visitor(token, nonce)

    def visitor(self, cookie: str, now: datetime) -> Visitor | None:
        """Return the visitor of a cookie, or None if it is invalid, has expired or its token was changed."""
        parts = cookie.split(".") if len(cookie) <= _LONGEST_COOKIE else []
        if len(parts) < 4 or not parts[0].isascii() or not parts[0].isdigit():
            return None
        expiry, nonce, name = parts[0], parts[1], ".".join(parts[2:-1])
        token = next((each for each in self.tokens if each.name == unquote(name)), None)
        if (token is None) is bool(self.tokens) or (token is not None and token.role not in READERS):
            return None
        expected = _signature(self._key(token), f"{expiry}.{nonce}.{name}")
        if not hmac.compare_digest(expected.encode(), parts[-1].encode()) or int(expiry) <= now.timestamp():
            return None
        return self._visitor(token, nonce)

    def _visitor(self, token: Token | None, nonce: str) -> Visitor:
        return Visitor(
            name="" if token is None else token.name,
            role=Role.ADMIN if token is None else token.role,
            nonce=nonce,
            csrf=_signature(self._key(token), f"csrf.{nonce}"),
        )

    def _key(self, token: Token | None) -> bytes:
        return self.own_key if token is None else token.secret.reveal().encode()


def _signature(key: bytes, text: str) -> str:
    return hmac.new(key, f"freshtable page.{text}".encode(), hashlib.sha256).hexdigest()
