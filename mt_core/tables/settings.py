"""Settings of the table manager: defaults and limits for materialized tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from mt_core.config import SETTINGS, value_of
from mt_core.model.freshness import Freshness
from mt_core.model.table import TableDefinition

ZONE_KEY = "table.local-time-zone"
THRESHOLD_KEY = "materialized-table.refresh-mode.freshness-threshold"
DEFAULT_FULL_KEY = "materialized-table.default-freshness.full"
TIMEOUT_KEY = "materialized-table.refresh.timeout"
VERIFY_KEY = "materialized-table.verify.interval"
UPSTREAM_WAIT_KEY = "materialized-table.upstream-wait"
DEFAULT_CONTINUOUS_KEY = "materialized-table.default-freshness.continuous"


class InitialRefresh(StrEnum):
    """When a new table is filled: by CREATE, by its first scheduled refresh, or partition by partition.

    With NONE, each scheduled refresh fills only the partitions of its schedule times.
    """

    ON_CREATE = "on-create"
    ON_SCHEDULE = "on-schedule"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """Defaults and limits for materialized tables.

    `owner` identifies this process in leases. `observe_wait_s` is how long a statement that shows tables
    waits for the scheduler. `alter_wait_s` and `drop_wait_s` are how long ALTER (of columns) and DROP wait
    for a running refresh to end. If `upstream_wait` is None, it is half the time between a table's schedule
    times.
    """

    owner: str
    zone: str = "UTC"
    scheduler_type: str = "memory"
    freshness_threshold_s: int = 1800
    default_freshness_full: Freshness = field(default_factory=lambda: Freshness(1, "HOUR"))
    default_freshness_continuous: Freshness = field(default_factory=lambda: Freshness(3, "MINUTE"))
    initial_refresh: InitialRefresh = InitialRefresh.ON_CREATE
    max_partitions: int = 366
    lease: timedelta = timedelta(seconds=60)
    intent_wait_s: float = 5.0
    alter_wait_s: float = 60.0
    drop_wait_s: float = 10.0
    observe_wait_s: float = 1.0
    history: timedelta = timedelta(days=7)
    continuous_history: timedelta = timedelta(hours=1)
    refresh_history: timedelta = timedelta(days=30)
    refresh_timeout: timedelta = timedelta(0)
    verify_interval: timedelta = timedelta(days=1)
    upstream_wait: timedelta | None = None
    suspend_after: int = 5
    compact_small_files: int = 50
    compact_delete_files: int = 20
    iceberg_refresh_state: bool = False

    def in_session(self, properties: Mapping[str, str]) -> ManagerSettings:
        """Return the settings with the session's own values; raise ConfigError for an invalid value."""
        threshold = _duration(THRESHOLD_KEY, properties)
        full, continuous = (
            _duration(DEFAULT_FULL_KEY, properties),
            _duration(DEFAULT_CONTINUOUS_KEY, properties),
        )
        return replace(
            self,
            freshness_threshold_s=self.freshness_threshold_s if threshold is None else threshold,
            default_freshness_full=self.default_freshness_full
            if full is None
            else Freshness.of_seconds(full),
            default_freshness_continuous=(
                self.default_freshness_continuous if continuous is None else Freshness.of_seconds(continuous)
            ),
        )


def refresh_timeout_of(options: Mapping[str, str], settings: ManagerSettings) -> timedelta:
    """Return the refresh timeout of a table with *options*, 0 for none.

    Raises ConfigError if the timeout in *options* is invalid.
    """
    if TIMEOUT_KEY not in options:
        return settings.refresh_timeout
    return timedelta(seconds=_duration(TIMEOUT_KEY, options) or 0)


def verify_interval_of(options: Mapping[str, str], settings: ManagerSettings) -> timedelta:
    """Return how often to compare a table with *options* with its query, 0 for never.

    Raises ConfigError if the interval in *options* is invalid.
    """
    own = _duration(VERIFY_KEY, options)
    return settings.verify_interval if own is None else timedelta(seconds=own)


def upstream_wait_of(
    definition: TableDefinition, settings: ManagerSettings, schedule_time: datetime
) -> timedelta:
    """Return how long a refresh for *schedule_time* waits for upstream tables.

    Raises ConfigError if the wait in the table's options is invalid.
    """
    own = _duration(UPSTREAM_WAIT_KEY, definition.options)
    if own is not None:
        return timedelta(seconds=own)
    if settings.upstream_wait is not None:
        return settings.upstream_wait
    return definition.period_at(schedule_time) / 2


def check_durations(options: Mapping[str, str]) -> None:
    """Raise ConfigError if a duration option of a table has an invalid value."""
    for key in (TIMEOUT_KEY, UPSTREAM_WAIT_KEY, VERIFY_KEY):
        _duration(key, options)


def _duration(key: str, properties: Mapping[str, str]) -> int | None:
    """Return the duration *key* in seconds, or None if *properties* do not contain it."""
    if key not in properties:
        return None
    setting = next(setting for setting in SETTINGS if setting.key == key)
    length = value_of(setting, properties[key], f"SET '{key}'")
    return int(length.total_seconds()) if isinstance(length, timedelta) else None
