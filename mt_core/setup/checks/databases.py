"""Checks the database of the registry, and the database or the REST server of the catalog `lake`."""

from __future__ import annotations

import httpx

from mt_core.base.secrets import Secret
from mt_core.errors import MtError
from mt_core.model.finding import Finding
from mt_core.registry.inspection import DatabaseState, inspect_database
from mt_core.registry.schema import NEWEST
from mt_core.setup.machine import Machine

REGISTRY, CATALOG = "registry", "catalog"
TIMEOUT_S = 5
_TABLES_OF_ICEBERG = "iceberg_tables"
_ASKS_FOR_TOKEN = (401, 403)
_INSPECTABLE = ("sqlite:", "postgresql:", "postgresql+psycopg:")


def check_registry(machine: Machine) -> list[Finding]:
    """Return a finding on whether the registry database responds and has this version's schema."""
    url = machine.config.registry_url.reveal()
    try:
        return [judge_registry(inspect_database(url, TIMEOUT_S))]
    except MtError as error:
        return [_unreachable(REGISTRY, url, error)]


def check_catalog(machine: Machine) -> list[Finding]:
    """Return a finding on whether the database or the server of the catalog responds."""
    url = machine.config.catalog_url.reveal()
    if machine.config.is_served_catalog:
        return [_of_server(machine.config.catalog_url, machine.config.warehouse)]
    if not url.startswith(_INSPECTABLE):
        return [
            Finding.note(
                CATALOG, f"catalog.url ({url.partition('//')[0]}…) is read only by Spark and was not checked"
            )
        ]
    try:
        return [judge_catalog(inspect_database(url, TIMEOUT_S))]
    except MtError as error:
        return [_unreachable(CATALOG, url, error)]


def _of_server(url: Secret, warehouse: str) -> Finding:
    """Return a finding on whether a REST server responds. It need not accept a request without a token."""
    try:
        answer = httpx.get(
            f"{url.reveal().rstrip('/')}/v1/config",
            params={"warehouse": warehouse} if warehouse else {},
            timeout=TIMEOUT_S,
            follow_redirects=True,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Finding.problem(
            CATALOG, f"{url} does not answer: {error}", "start the server, or correct catalog.uri"
        )
    if answer.status_code in _ASKS_FOR_TOKEN:
        return Finding.ok(CATALOG, f"{url} answers, and asks for a token; the catalog's was not checked")
    if not answer.is_success:
        text = f"{url} is not an Iceberg REST server: it answers {answer.status_code} to GET /v1/config"
        return Finding.problem(CATALOG, text, "correct catalog.uri or catalog.warehouse")
    return Finding.ok(CATALOG, f"{url} answers; freshtable doctor --catalog lake checks what it supports")


def judge_registry(state: DatabaseState, newest: str = NEWEST) -> Finding:
    """Return the finding about the schema of a registry. *newest* is the schema of this version."""
    if state.migration is None:
        return Finding.note(
            REGISTRY, f"{state.name} has no registry yet; the gateway creates it when it starts"
        )
    if state.migration == newest:
        return Finding.ok(REGISTRY, f"{state.name} answers, with schema {newest}")
    if state.migration < newest:
        text = (
            f"{state.name} has schema {state.migration}; the gateway upgrades it to {newest} when it starts"
        )
        return Finding.note(REGISTRY, text, "back up the database before you start the gateway")
    text = f"{state.name} has schema {state.migration} of a newer release; this release has {newest}"
    return Finding.problem(REGISTRY, text, "install the newer release")


def judge_catalog(state: DatabaseState) -> Finding:
    """Return a finding on whether the database contains an Iceberg catalog."""
    if _TABLES_OF_ICEBERG in state.tables:
        return Finding.ok(CATALOG, f"{state.name} answers and contains Iceberg's tables")
    return Finding.note(CATALOG, f"{state.name} has no catalog yet; Spark creates it when it starts")


def _unreachable(subject: str, url: str, error: MtError) -> Finding:
    # The same code reads both databases, and its messages speak of the registry.
    text = error.message.replace("Registry ", "Database ").replace("registry ", "database ")
    way_out = "restore the file from a backup" if url.startswith("sqlite:") else "start the database"
    return Finding.problem(subject, text, f"{way_out}, or correct {subject}.url")
