"""Properties of streaming jobs: checkpoints, savepoints, state TTL and source rewrites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from mt_core.base.options import FLINK_DURATION, flink_duration_of
from mt_core.errors import RequestInvalid
from mt_core.model.stream import OnSourceRewrite
from mt_core.plans.durations import FOR_EVER

INTERVAL_KEY = "execution.checkpointing.interval"
CHECKPOINTS_KEY = "execution.checkpointing.dir"
SAVEPOINTS_KEY = "execution.checkpointing.savepoint-dir"
ON_SOURCE_REWRITE_KEY = "streaming.on-source-rewrite"
STATE_TTL_KEY = "table.exec.state.ttl"
MATERIALIZE_KEY = "table.exec.sink.upsert-materialize"
# Flink's newer name comes first and takes precedence if both are set.
RESTORE_KEYS = ("execution.state-recovery.path", "execution.savepoint.path")
_MILLISECOND = timedelta(milliseconds=1)


class UpsertMaterialize(StrEnum):
    """The values of `MATERIALIZE_KEY`: when a stream keeps all rows of a key in state to upsert the latest.

    AUTO: if several rows of the query may have the same key. NONE: never; the deletion of one row then
    deletes its key. FORCE: always.
    """

    AUTO = "auto"
    NONE = "none"
    FORCE = "force"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDefaults:
    """The gateway's defaults for stream properties that a session does not set."""

    checkpoints: str
    savepoints: str
    interval: timedelta = timedelta(seconds=1)
    on_source_rewrite: OnSourceRewrite = OnSourceRewrite.FAIL


@dataclass(frozen=True, slots=True)
class StreamProperties:
    """The stream properties of a session, with the gateway's defaults."""

    properties: Mapping[str, str]
    defaults: StreamDefaults

    def checkpoint(self, job_id: str) -> str:
        """Return the checkpoint folder of a job."""
        return _inside(self._text(CHECKPOINTS_KEY) or self.defaults.checkpoints, job_id)

    def savepoint(self, job_id: str, nonce: str) -> str:
        """Return the folder for a new savepoint of a job, named as in Flink. *nonce* makes it unique."""
        return _inside(
            self._text(SAVEPOINTS_KEY) or self.defaults.savepoints, f"savepoint-{job_id[:6]}-{nonce}"
        )

    @property
    def restored_from(self) -> str | None:
        """The savepoint from which a job starts, or None."""
        return next(filter(None, map(self._text, RESTORE_KEYS)), None)

    @property
    def interval_ms(self) -> int:
        """The trigger interval of a job in milliseconds. Raises RequestInvalid."""
        text = self._text(INTERVAL_KEY)
        return (interval_of(text) if text else self.defaults.interval) // _MILLISECOND

    @property
    def on_source_rewrite(self) -> OnSourceRewrite:
        text = self._text(ON_SOURCE_REWRITE_KEY)
        return OnSourceRewrite(text.lower()) if text else self.defaults.on_source_rewrite

    def _text(self, key: str) -> str:
        return self.properties.get(key, "").strip()


def interval_of(text: str) -> timedelta:
    """Return the trigger interval in *text*; without a unit, it is in milliseconds. Raises RequestInvalid."""
    interval = flink_duration_of(text)
    if interval is None:
        raise RequestInvalid(
            f"{INTERVAL_KEY}: '{text}' (the session) cannot be used; "
            "expected a duration such as 10 s or 500 ms.",
            key=INTERVAL_KEY,
        )
    return interval


def state_ttl_of(text: str) -> timedelta:
    """Return the state TTL in *text*, or FOR_EVER if it is 0 or empty. Raises RequestInvalid."""
    ttl = flink_duration_of(text or "0")
    if ttl is None:
        raise RequestInvalid(
            f"{STATE_TTL_KEY}: '{text}' (the session) cannot be used; expected {FLINK_DURATION.name}, "
            "at least 1 ms, or 0 for ever.",
            key=STATE_TTL_KEY,
        )
    return ttl or FOR_EVER


def upsert_materialize_of(text: str) -> UpsertMaterialize:
    """Return the `UpsertMaterialize` value in *text*, or AUTO if it is empty. Raises RequestInvalid."""
    value = next((each for each in UpsertMaterialize if each.value == (text or "auto").lower()), None)
    if value is None:
        raise RequestInvalid(
            f"{MATERIALIZE_KEY}: '{text}' (the session) cannot be used; expected "
            f"{', '.join(each.value for each in UpsertMaterialize)}.",
            key=MATERIALIZE_KEY,
        )
    return value


def _inside(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
