"""Secrets: which property keys have secret values, and how to mask secrets in text.

All code that prints a property, an option, a setting or text from outside calls this module, so that the
rules are the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MASK = "***"

_OF_COLUMNS = r"write\..*\.column\.|partition\.fields\."
# A key that ends in one of these words describes a secret but does not contain it.
_ABOUT = (
    "providers?|enabled|disabled|files?|path|dir|location|type|"
    "class|format|algorithm|bit-?length|length|size|limit|count|"
    "max|min|bytes|ms|seconds|at|ttl|expir(?:y|ation|es)|interval|timeout|ur[il]|endpoint|scopes?"
)
_SECRET_WORDS = (
    "passw(?:or)?d|passphrase|passcode|pwd|secret|token(?!iz)|credential|authorization|signature|jaas"
)
_SECRET_KEYS_OF = (
    "access|account|private|keystore|api|shared|signing|master|subscription|sas|sse|client|(?:en|de)cryption"
)
SECRET_KEYS = (
    rf"^(?!(?:{_OF_COLUMNS}))(?!.*(?:[._-]|tokens?|secrets?|passwords?|credentials?)(?:{_ABOUT})$)"
    rf".*(?:{_SECRET_WORDS}|(?:{_SECRET_KEYS_OF})[._-]?key(?![._-]?fields)"
    r"|(?:^|[._-]|db|user)pass$|(?:^|[._-])sig$)"
)
"""A regular expression for keys with secret values; valid in Python and Java, to be matched ignoring case."""

_SECRET = re.compile(SECRET_KEYS, re.IGNORECASE | re.DOTALL)
# The digits after a colon may be a port instead of a password: `http://host:8080/x?mail=a@b`.
_URL_PASSWORD = re.compile(r"(://[^:/?#@\s]*:)(?![0-9]+[/?#])[^\s'\"<>]{1,500}(?=@)")
_ASSIGNMENT = re.compile(r"(?<![\w.-])([\w.-]+)(=)(\"[^\"]*\"|'[^']*'|[^&;,\s)'\"]+)")
# An option as SQL writes it: 'key' = 'value'.
_OPTION = re.compile(r"(['\"`])([\w.-]+)\1(\s*=\s*)('(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\")")
# Without an equals sign, the text after a key is its value unless that text is itself a key: SET 'key' =
# 'value'.
# A key begins at a quote or at the begin of a word; to try all others would take the square of its length.
_PROPERTY = re.compile(
    r"(?:(?<![\w.-])|(?=['\"`]))(['\"`]?)([\w.-]+)\1(\s*=\s*|\s+(?!'[\w.-]+'\s*=|\"[\w.-]+\"\s*=))"
    r"('(?:[^'\\]|''|\\.)*(?:'|$)|\"(?:[^\"\\]|\"\"|\\.)*(?:\"|$))"
)
_HEADER = re.compile(r"(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[\w.~+/=-]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A string that cannot be printed by accident.

    str() and repr() return `***`, or a replacement if one is given. `reveal()` returns the text itself.
    """

    _text: str
    _shown: str = field(default=MASK, compare=False)

    def reveal(self) -> str:
        return self._text

    def __str__(self) -> str:
        return self._shown

    __repr__ = __str__

    def __bool__(self) -> bool:
        return bool(self._text)


def secret_url(url: str) -> Secret:
    """Return *url* as a secret that prints everything except its password.

    The password may contain any character except a line break.
    """
    return Secret(url, without_passwords(re.sub(r"(://[^:/?#@]*:).*(?=@)", rf"\g<1>{MASK}", url)))


def is_secret(key: str) -> bool:
    """Return whether the value of property *key* must not be shown."""
    return _SECRET.search(key) is not None


def shown(key: str, value: str) -> str:
    """Return the value of property *key* for printing: masked if secret, else with passwords in it masked."""
    return MASK if value and is_secret(key) else without_passwords(value)


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return *properties* for printing, sorted by key."""
    return {key: shown(key, value) for key, value in sorted(properties.items())}


def without_passwords(text: str) -> str:
    """Mask passwords in URLs, the values of `secret=value` and authorization headers in *text*.

    Options as SQL writes them, `'secret' = 'value'`, are masked too.
    """
    text = _URL_PASSWORD.sub(rf"\g<1>{MASK}", text) if "://" in text else text
    if "=" in text:
        text = _OPTION.sub(_shown_option, text)
        text = _ASSIGNMENT.sub(lambda match: f"{match[1]}={MASK}" if is_secret(match[1]) else match[0], text)
    return _HEADER.sub(rf"\g<1>{MASK}", text)


def _shown_option(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{match[1]}{match[3]}'{MASK}'" if is_secret(match[2]) else match[0]


def redacted(text: str, properties: Mapping[str, str]) -> str:
    """Mask the values of secret *properties* wherever *text* quotes them."""
    for key, value in properties.items():
        if value and is_secret(key):
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, text)
    return without_passwords(text)


def statement_text(text: str, longest: int) -> str:
    """Return the first *longest* characters of a statement, with the values of secret properties masked."""

    def shown_property(match: re.Match[str]) -> str:
        return f"{match[0][: match.start(4) - match.start()]}'{MASK}'" if is_secret(match[2]) else match[0]

    return without_passwords(_PROPERTY.sub(shown_property, text[:longest]))
