"""The keys and values of properties that sessions and SET accept."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo

from mt_core.base.options import BOOLEAN, suggestion
from mt_core.config.settings import SETTINGS, Kind, Setting
from mt_core.config.values import value_of, zone_key
from mt_core.errors import ConfigError, RequestInvalid
from mt_core.jobs.installed import HOOKS_KEY
from mt_core.model.zone import zone_named
from mt_core.sessions.properties.flink_properties import WITHOUT_EFFECT
from mt_core.sessions.properties.plan_properties import PLAN_SETTINGS
from mt_core.sessions.properties.stream_properties import (
    CHECKPOINTS_KEY,
    INTERVAL_KEY,
    MATERIALIZE_KEY,
    ON_SOURCE_REWRITE_KEY,
    RESTORE_KEYS,
    SAVEPOINTS_KEY,
    STATE_TTL_KEY,
    interval_of,
    state_ttl_of,
    upsert_materialize_of,
)
from mt_core.tables.settings import DEFAULT_CONTINUOUS_KEY, DEFAULT_FULL_KEY, THRESHOLD_KEY, ZONE_KEY

TIMEOUT_KEY = "execution.timeout"
RUNTIME_MODE_KEY = "execution.runtime-mode"
_DML_SYNC = Setting(key="table.dml-sync", kind=Kind.BOOLEAN, default="false", help="")
_OF_STREAMS = frozenset({INTERVAL_KEY, CHECKPOINTS_KEY, SAVEPOINTS_KEY, ON_SOURCE_REWRITE_KEY, *RESTORE_KEYS})
_MAY_BE_EMPTY = {TIMEOUT_KEY, *_OF_STREAMS}
# The keys that affect a session's statements and the tables that they create. Other settings belong to the
# gateway and have no effect in a session. Clients that send their whole configuration include them anyway.
ACTING = frozenset({
    ZONE_KEY, TIMEOUT_KEY, RUNTIME_MODE_KEY, _DML_SYNC.key, HOOKS_KEY, THRESHOLD_KEY, DEFAULT_FULL_KEY,
    DEFAULT_CONTINUOUS_KEY, STATE_TTL_KEY, MATERIALIZE_KEY, *_OF_STREAMS,
    *(each.key for each in PLAN_SETTINGS),
})  # fmt: skip
_UNDERSTOOD = {each.key: each for each in (*SETTINGS, _DML_SYNC, *PLAN_SETTINGS) if each.key in ACTING}
_GATEWAYS = frozenset(each.key for each in SETTINGS) - ACTING
# Options of job status hooks, which the hooks themselves check.
_HOOK_OPTION = re.compile(r"job\.hooks\.[^.]+\..+")
_SCHEDULER_OPTION = re.compile(r"workflow-scheduler\.[^.]+\..+")
_GATEWAY_PREFIXES = ("freshtable.", "materialized-table.", "sql-gateway.", "workflow-scheduler.")
_KNOWN = {*ACTING, *_GATEWAYS, *WITHOUT_EFFECT}
# Two keys with a likeness of _MISSPELT differ by one or two letters. Flink keys that are missing from the
# table are less similar to every key in it.
_MISSPELT, _SOMEWHAT_LIKE = 0.92, 0.75
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?")
_MOST_HOURS, _MOST_MINUTES = 18, 59


def settable_keys() -> frozenset[str]:
    """Return the keys that SET accepts: those with an effect, and Flink keys without one."""
    return ACTING | WITHOUT_EFFECT.keys()


def values_for(key: str) -> tuple[str, ...]:
    """Return the possible values of an enumerated property, or an empty tuple for any other property."""
    setting = _UNDERSTOOD.get(key)
    if setting is None:
        return WITHOUT_EFFECT[key].values if key in WITHOUT_EFFECT else ()
    return BOOLEAN.values if setting.kind is Kind.BOOLEAN else setting.choices


def check_property(key: str, value: str) -> None:
    """Raise RequestInvalid if *key* takes effect in a session and *value* is invalid for it."""
    setting = _UNDERSTOOD.get(key)
    if key == STATE_TTL_KEY:
        state_ttl_of(value.strip())
    if key == MATERIALIZE_KEY:
        upsert_materialize_of(value.strip())
    if setting is None or (key in _MAY_BE_EMPTY and not value.strip()):
        return
    if key == INTERVAL_KEY:
        interval_of(value.strip())
        return
    if setting.kind is Kind.ZONE:
        session_zone(value)
        return
    try:
        value_of(setting, value, "the session")
    except ConfigError as cause:
        raise RequestInvalid(str(cause), **cause.facts) from cause


def check_set(key: str, value: str) -> None:
    """Raise RequestInvalid if SET or a statement's configuration cannot set *key* to *value*.

    Invalid values, gateway settings and misspelt keys are rejected. Unknown keys are accepted.
    """
    check_property(key, value)
    form = WITHOUT_EFFECT.get(key)
    if form is not None and not form.accepts(value):
        raise RequestInvalid(f"{key}: '{value}' (the session) cannot be used; expected {form.name}.", key=key)
    if key in ACTING or form is not None or key.startswith("spark."):
        return
    if key in _GATEWAYS or _SCHEDULER_OPTION.fullmatch(key):
        raise RequestInvalid(
            f"{key} is a setting of the whole gateway, not of a session; "
            "set it when the gateway starts, as docs/settings.md describes.",
            key=key,
        )
    if _HOOK_OPTION.fullmatch(key):
        return
    ours = key.lower().startswith(_GATEWAY_PREFIXES)
    near = suggestion(key.lower(), _KNOWN, likeness=_SOMEWHAT_LIKE if ours else _MISSPELT)
    if near or ours:
        raise RequestInvalid(
            f"There is no property {key}; {near or 'docs/settings.md lists the properties.'}", key=key
        )


def session_zone(name: str) -> tzinfo:
    """Return the time zone of an IANA name or of an offset such as GMT+08:00. Raises RequestInvalid."""
    if zone_key(name) is not None:
        return zone_named(name)
    if name == "Z":
        return UTC
    offset = _OFFSET.fullmatch(name)
    hours, minutes = (int(offset[part] or 0) for part in ("hours", "minutes")) if offset else (0, 0)
    if offset is None or hours > _MOST_HOURS or minutes > _MOST_MINUTES:
        raise RequestInvalid(
            f"{ZONE_KEY}: '{name}' (the session) cannot be used; "
            "expected an IANA name such as Europe/Berlin, or an offset such as GMT+08:00.",
            key=ZONE_KEY,
        )
    return timezone((-1 if offset["sign"] == "-" else 1) * timedelta(hours=hours, minutes=minutes))
