"""Builds the settings of each part of the gateway from the configuration."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from mt_core.app.home import Home
from mt_core.base.access import is_loopback
from mt_core.base.secrets import Secret
from mt_core.config import Config
from mt_core.config.reading import CATALOG_PREFIX
from mt_core.errors import ConfigError
from mt_core.gateway.page.page import PREFIX
from mt_core.jobs.installed import InstalledHooks
from mt_core.jobs.webhook import ALLOWED_KEY, SECRET_KEY, Webhook
from mt_core.model.freshness import Freshness
from mt_core.model.stream import OnSourceRewrite
from mt_core.sessions.properties.property_values import TIMEOUT_KEY
from mt_core.sessions.properties.stream_properties import (
    CHECKPOINTS_KEY,
    INTERVAL_KEY,
    ON_SOURCE_REWRITE_KEY,
    SAVEPOINTS_KEY,
    StreamDefaults,
)
from mt_core.spark.driver.conf import (
    ALLOW_UNAUTHENTICATED,
    SESSION_CATALOG,
    DriverSettings,
    check_authentication,
    needs_s3_files,
)
from mt_core.spark.driver.jars import default_jars_dir
from mt_core.spark.results.spool import Spools
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.workflow.scheduler import WorkflowScheduler

API_VERSIONS = ("V1", "V2", "V3", "V4")
VERSIONS_KEY = "sql-gateway.endpoint.rest.api-versions"
EMBEDDED_KEY = "sql-gateway.embedded"
UI_KEY, UI_URL_KEY = "sql-gateway.ui.enabled", "sql-gateway.ui.url"
_UI_URL = re.compile(r"https?://([\w.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?(/[\w.~-]+)*", re.ASCII | re.IGNORECASE)
# The scheduler in the gateway's process. Other schedulers cannot reach the socket of an embedded gateway.
IN_PROCESS = "memory"
# Options of Iceberg's catalogs that are settings of their own.
_SETTINGS_OF_CATALOG = {
    "type": "catalog.type",
    "catalog-impl": "catalog.type",
    "warehouse": "catalog.warehouse",
}


def manager_settings(config: Config) -> ManagerSettings:
    """Return the settings of the manager. Their owner names this process."""
    return ManagerSettings(
        owner=f"{os.uname().nodename}/{os.getpid()}/{uuid.uuid4().hex[:8]}",
        zone=config.text("table.local-time-zone"),
        scheduler_type=config.text("workflow-scheduler.type"),
        freshness_threshold_s=int(
            config.duration("materialized-table.refresh-mode.freshness-threshold").total_seconds()
        ),
        default_freshness_full=_freshness(config.duration("materialized-table.default-freshness.full")),
        default_freshness_continuous=_freshness(
            config.duration("materialized-table.default-freshness.continuous")
        ),
        initial_refresh=InitialRefresh(config.text("materialized-table.initial-refresh")),
        max_partitions=config.integer("materialized-table.catch-up.max-partitions"),
        history=config.duration("materialized-table.history"),
        continuous_history=config.duration("materialized-table.continuous.history"),
        refresh_history=config.duration("materialized-table.refresh.history"),
        refresh_timeout=config.duration("materialized-table.refresh.timeout"),
        verify_interval=config.duration("materialized-table.verify.interval"),
        upstream_wait=config.duration_if_set("materialized-table.upstream-wait"),
        suspend_after=config.integer("materialized-table.failures.suspend-after"),
        compact_small_files=config.integer("materialized-table.compaction.small-files"),
        compact_delete_files=config.integer("materialized-table.compaction.delete-files"),
        iceberg_refresh_state=config.boolean("materialized-table.iceberg-refresh-state"),
    )


def _freshness(length: timedelta) -> Freshness:
    return Freshness.of_seconds(int(length.total_seconds()))


def driver_settings(config: Config, home: Home, environ: Mapping[str, str]) -> DriverSettings:
    """Return the settings of the Spark driver of a gateway with *home*.

    Raises ConfigError if Spark's ports would be unauthenticated and no setting allows that, or if the
    settings of the catalog do not fit its type.
    """
    check_catalog(config)
    url = config.catalog_url.reveal()
    if url.startswith("sqlite:///"):
        url = f"jdbc:sqlite:file:{url.removeprefix('sqlite:///')}"
    # Spark's own catalog reaches files by Hadoop.
    is_foreign = config.is_served_catalog or needs_s3_files(config.warehouse, config.spark)
    settings = DriverSettings(
        catalog_url=url,
        warehouse=config.warehouse,
        is_served=config.is_served_catalog,
        catalog_options=config.catalog_options,
        spark_catalog=f"{config.local_warehouse}/{SESSION_CATALOG}" if is_foreign else "",
        jars_dir=default_jars_dir(environ),
        log_dir=home.logs,
        temporary=home.temporary,
        zone=config.text("table.local-time-zone"),
        spark_conf=config.spark,
        environ=environ,
        lost_after_s=config.duration("sql-gateway.engine.lost-after").total_seconds(),
        allow_unauthenticated=config.boolean(ALLOW_UNAUTHENTICATED),
    )
    check_authentication(settings)
    return settings


def check_catalog(config: Config) -> None:
    """Raise ConfigError if a setting of the catalog `lake` does not fit its type."""
    is_served = config.is_served_catalog
    if is_served and config.text("catalog.url"):
        raise ConfigError(
            "catalog.url is the database of a catalog of type jdbc, and catalog.type is rest: "
            "set catalog.uri to the URL of the REST server, and remove catalog.url.",
            key="catalog.url",
        )
    if not is_served and config.text("catalog.uri"):
        raise ConfigError(
            "catalog.uri is the REST server of a catalog of type rest, and catalog.type is jdbc: "
            "set catalog.type to rest, or set catalog.url to the database and remove catalog.uri.",
            key="catalog.uri",
        )
    if is_served and not config.text("catalog.uri"):
        raise ConfigError(
            "catalog.type is rest, and catalog.uri is not set: set it to the URL of the REST server.",
            key="catalog.uri",
        )
    settings = _SETTINGS_OF_CATALOG | {"uri": f"catalog.{'uri' if is_served else 'url'}"}
    for option in sorted(settings.keys() & config.catalog_options.keys()):
        key = f"{CATALOG_PREFIX}{option}"
        raise ConfigError(f"{key} is not an option of the catalog; set {settings[option]} instead.", key=key)
    if config.catalog_options.get("cache-enabled", "false").lower() != "false":
        key = f"{CATALOG_PREFIX}cache-enabled"
        raise ConfigError(
            f"{key} must be false: the catalog would not see what other processes commit.", key=key
        )


def spools(config: Config, folder: Path) -> Spools:
    """Return the spools for result rows, in memory and in *folder*, which is emptied."""
    return Spools(
        folder,
        max_memory=config.integer("sql-gateway.result.max-memory"),
        max_disk=config.integer("sql-gateway.result.max-disk"),
    )


def session_defaults(config: Config) -> dict[str, str]:
    """Return the properties with which every session starts."""
    keys = ("execution.runtime-mode", "table.local-time-zone")
    limit_ms = int(config.duration(TIMEOUT_KEY).total_seconds() * 1000)
    return {key: config.text(key) for key in keys} | ({TIMEOUT_KEY: f"{limit_ms} ms"} if limit_ms else {})


def stream_defaults(config: Config) -> StreamDefaults:
    """Return the defaults of streaming jobs."""
    return StreamDefaults(
        checkpoints=config.text(CHECKPOINTS_KEY) or str(config.home / "checkpoints"),
        savepoints=config.text(SAVEPOINTS_KEY) or str(config.home / "savepoints"),
        interval=config.duration(INTERVAL_KEY),
        on_source_rewrite=OnSourceRewrite(config.text(ON_SOURCE_REWRITE_KEY)),
    )


def api_versions(config: Config) -> tuple[str, ...]:
    """Return the API versions that the gateway announces. Raises ConfigError for an unknown name."""
    text = config.text(VERSIONS_KEY)
    versions = tuple(dict.fromkeys(name.strip().upper() for name in text.split(",")))
    for name in versions:
        if name not in API_VERSIONS:
            raise ConfigError(
                f"{VERSIONS_KEY}: '{name}' is not an API version; "
                f"expected some of {', '.join(API_VERSIONS)}, separated by commas."
            )
    return versions


def page_url(config: Config) -> str | None:
    """Return the URL at which browsers reach the page; "" if it is at the address of their request.

    The result is None if the gateway serves no page. Raises ConfigError for an invalid URL.
    """
    url = config.text(UI_URL_KEY).rstrip("/")
    if url and _UI_URL.fullmatch(url) is None:
        raise ConfigError(
            f"{UI_URL_KEY}: '{url}' is not a URL such as https://data.example.com/freshtable; "
            "it has no user, no query and no fragment.",
            key=UI_URL_KEY,
        )
    if config.boolean(EMBEDDED_KEY) or not config.boolean(UI_KEY):
        return None
    return f"{_as_browsers_write(url)}{PREFIX}" if url else ""


def _as_browsers_write(url: str) -> str:
    """Return *url* with the scheme, host and port as in a browser's header Origin."""
    parts = urlsplit(url)
    usual = ":443" if parts.scheme == "https" else ":80"
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(usual)}{parts.path}"


def page_base(config: Config) -> str | None:
    """Return the path of the page as browsers see it, or None if the gateway serves no page.

    Raises ConfigError for an invalid `sql-gateway.ui.url`.
    """
    url = page_url(config)
    return None if url is None else urlsplit(url).path or PREFIX


def scheduler_options(config: Config, scheduler: type[WorkflowScheduler]) -> dict[str, str]:
    """Return the options of the scheduler, with defaults.

    Raises ConfigError for an unknown or missing option.
    """
    options = {option.key: option for option in scheduler.options}
    values = config.scheduler_options(options)
    prefix = f"workflow-scheduler.{scheduler.identifier}."
    for key in sorted(values.keys() - options.keys()):
        names = ", ".join(prefix + name for name in sorted(options)) or "none"
        raise ConfigError(
            f"{prefix}{key} is not an option of scheduler {scheduler.identifier}; its options: {names}."
        )
    for key in sorted(options.keys() - values.keys()):
        if options[key].default is None:
            raise ConfigError(
                f"{prefix}{key} must be set for scheduler {scheduler.identifier}: {options[key].help}"
            )
    defaults = {key: option.default for key, option in options.items() if option.default is not None}
    return {**defaults, **values}


def job_hooks(config: Config) -> InstalledHooks:
    """Return the job status hooks of this gateway. Raises ConfigError for an invalid webhook URL."""
    urls = [url.strip() for url in config.text(ALLOWED_KEY).split(",") if url.strip()]
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(
                f"{ALLOWED_KEY}: '{url}' is not a URL that begins with https:// or http://.", key=ALLOWED_KEY
            )
    return InstalledHooks({Webhook.identifier: Webhook(urls, Secret(config.text(SECRET_KEY)))})


def check_exposure(config: Config) -> None:
    """Raise ConfigError if other machines could access the gateway without a token.

    Also raise it if the scheduler could not reach the gateway.
    """
    scheduler = config.text("workflow-scheduler.type")
    if config.boolean(EMBEDDED_KEY):
        if scheduler != IN_PROCESS:
            raise ConfigError(
                f"The scheduler {scheduler} cannot reach the UNIX socket of an embedded gateway; "
                f"start one with freshtable gateway, or set workflow-scheduler.type to {IN_PROCESS}."
            )
        return
    address = config.text("sql-gateway.endpoint.rest.address")
    if not is_loopback(address) and not config.tokens:
        raise ConfigError(
            f"sql-gateway.endpoint.rest.address is {address}, which other machines can reach: set "
            "sql-gateway.security.tokens, or listen on 127.0.0.1."
        )
