"""`freshtable doctor --catalog NAME`: probes a catalog in a Spark of its own, and formats the result."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mt_core.app.home import Home
from mt_core.app.settings import driver_settings
from mt_core.errors import EngineError
from mt_core.model.catalog import CatalogAbilities
from mt_core.model.table import TableIdentifier
from mt_core.registry.inspection import inspect_database
from mt_core.registry.schema import NEWEST
from mt_core.registry.store import SqlRegistry
from mt_core.sessions.catalog.created_catalogs import CatalogSettings, CreatedCatalogs
from mt_core.setup.machine import Machine
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import NAMESPACE, DriverSettings, catalog_names
from mt_core.spark.driver.spark_driver import DriverState, SparkDriver
from mt_core.spark.iceberg.catalog_probe import check_namespace_exists, probe

TIMEOUT_S = 5
POLL_S = 0.5
_NEEDED: Sequence[tuple[str, str]] = (
    ("asserts_branches", "refuses a commit to a branch that another commit has moved in the meantime"),
    ("keeps_history", "keeps earlier snapshots of a table"),
    ("keeps_properties", "keeps properties of a table"),
    ("keeps_branches", "keeps branches of a table"),
    ("drops_tables", "drops tables"),
    (
        "sends_metadata_location",
        "sends the location of a table's metadata, by which Iceberg recognizes a change",
    ),
    ("leaves_scans_to_clients", "leaves it to clients which files of a table they read"),
)
# An ability, and what Freshtable does without it.
_USED: Sequence[tuple[str, str, str]] = (
    (
        "creates_with_snapshot",
        "creates a table with its first snapshot in one commit",
        "materialized tables are created in two commits, and streams cannot create tables",
    ),
    ("has_views", "stores views", "tables with a connector cannot be created in it"),
    ("takes_purge", "drops a table with its files on request", "Freshtable deletes the files after DROP"),
    (
        "deletes_files",
        "deletes the files at once",
        "Freshtable deletes files that it still finds after DROP",
    ),
    ("chooses_locations", "chooses where a table is stored", "Freshtable chooses it, in the warehouse"),
)


def examine_catalog(machine: Machine, name: str, namespace: str | None) -> CatalogAbilities:
    """Return what catalog *name* can do with tables, found with a scratch table in *namespace*.

    The default is the default namespace of the catalog, or `default`. Raises the errors of a gateway's start,
    DefinitionInvalid for an unknown catalog or namespace, and CatalogUnsupported for a catalog of a class
    that cannot hold tables of Freshtable.
    """
    with tempfile.TemporaryDirectory(prefix="freshtable-doctor-") as folder, _spark(machine, folder) as spark:
        created = _created(machine, spark.settings)
        contexts = SparkContexts(spark, lambda: created)
        with contexts.working() as session:
            catalog = contexts.catalogs.iceberg_catalog(name)
            default = contexts.catalogs.setting(name, "default-namespace") or NAMESPACE
            levels = tuple((namespace or default).split("."))
            check_namespace_exists(session, catalog, TableIdentifier(name, levels, "t"))
            return probe(session, catalog, levels)


def lines(name: str, abilities: CatalogAbilities) -> Iterator[str]:
    """Yield a line for each ability, and a last line that says whether tables can be in the catalog."""
    for ability, words in _NEEDED:
        has = getattr(abilities, ability)
        yield f"{'ok' if has else 'problem':<8} {'' if has else 'not: '}{words}"
    for ability, words, without in _USED:
        has = getattr(abilities, ability)
        yield f"{'ok' if has else 'note':<8} {words}" if has else f"{'note':<8} not: {words}; {without}"
    if abilities.lacking:
        yield (
            f"Catalog {name} cannot hold materialized tables or tables that streams write; "
            "sources can be in it."
        )
    else:
        yield f"Catalog {name} can hold materialized tables and tables that streams write."


@contextmanager
def _spark(machine: Machine, folder: str) -> Iterator[SparkDriver]:
    """Start Spark without a cluster and apart from a running gateway, until the end of the block."""
    configured = driver_settings(machine.config, Home(machine.config.home), machine.environ)
    settings = replace(
        configured,
        log_dir=Path(folder) / "log",
        temporary=Path(folder) / "tmp",
        spark_conf={**configured.spark_conf, "spark.master": "local[1]"},
    )
    driver = SparkDriver(settings)
    driver.start()
    try:
        while not driver.wait_ready(POLL_S):
            # A gateway would try again for ever.
            if driver.state is DriverState.LOST:
                raise EngineError(driver.trouble())
        yield driver
    finally:
        driver.stop()


def _created(machine: Machine, settings: DriverSettings) -> CatalogSettings:
    """Return Spark's settings of the catalogs that statements created, from a registry of this release."""
    url, nothing = machine.config.registry_url.reveal(), dict[str, Mapping[str, str]]()
    if inspect_database(url, TIMEOUT_S).migration != NEWEST:
        return nothing
    registry = SqlRegistry.open(url, migrate=False)
    try:
        return CreatedCatalogs(registry, reserved=catalog_names(settings)).settings()
    finally:
        registry.close()
