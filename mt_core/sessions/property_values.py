"""Values of properties: what sessions understand is checked when it is set, any other key takes any value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo

from mt_core.config.settings import SETTINGS, Kind, Setting
from mt_core.config.values import known_zone, value_of
from mt_core.errors import ConfigError, RequestInvalid
from mt_core.model.zone import zone_named

ZONE_KEY = "table.local-time-zone"
TIMEOUT_KEY = "execution.timeout"
# Settings of the gateway itself mean nothing in a session, and clients send along what their own configuration says of them.
_PREFIXES = ("execution.", "table.", "materialized-table.")
_DML_SYNC = Setting(key="table.dml-sync", kind=Kind.BOOLEAN, default="false", help="")
_UNDERSTOOD = {each.key: each for each in (*SETTINGS, _DML_SYNC) if each.key.startswith(_PREFIXES)}
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?")
_MOST_HOURS, _MOST_MINUTES = 18, 59


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise RequestInvalid for the first property whose value cannot be right."""
    for key, value in properties.items():
        check_property(key, value)


def check_property(key: str, value: str) -> None:
    """Raise RequestInvalid naming key, value and what is expected, if the session understands *key* and not *value*."""
    setting = _UNDERSTOOD.get(key)
    if setting is None or (key == TIMEOUT_KEY and not value.strip()):
        return
    if setting.kind is Kind.ZONE:
        session_zone(value)
        return
    try:
        value_of(setting, value, "the session")
    except ConfigError as cause:
        raise RequestInvalid(str(cause), **cause.facts) from cause


def session_zone(name: str) -> tzinfo:
    """Return the zone that a session names: an IANA name, or an offset such as GMT+08:00; raises RequestInvalid."""
    if known_zone(name) is not None:
        return zone_named(name)
    if name == "Z":
        return UTC
    found = _OFFSET.fullmatch(name)
    hours, minutes = (int(found[part] or 0) for part in ("hours", "minutes")) if found else (0, 0)
    if found is None or hours > _MOST_HOURS or minutes > _MOST_MINUTES:
        raise RequestInvalid(
            f"{ZONE_KEY}: '{name}' (the session) cannot be used; expected an IANA name such as Europe/Berlin, or an offset "
            "such as GMT+08:00.",
            key=ZONE_KEY,
        )
    return timezone((-1 if found["sign"] == "-" else 1) * timedelta(hours=hours, minutes=minutes))
