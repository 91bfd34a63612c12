"""The description of this package for Airflow's provider manager."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description.

    It must conform to Airflow's schema, because every Airflow command fails if it does not.
    """
    return {
        "package-name": "freshtable-airflow",
        "name": "Freshtable",
        "description": "Materialized tables as DAGs, refreshed through the Freshtable gateway.",
        "connection-types": [
            {
                "connection-type": "freshtable",
                "hook-class-name": "freshtable_airflow.hook.FreshtableHook",
                "hook-name": "Freshtable gateway",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login"],
                    "relabeling": {"host": "Gateway URL", "password": "Token"},
                    "placeholders": {"host": "https://freshtable.example.com:8083"},
                },
                "conn-fields": {
                    "verify_tls": {
                        "label": "Verify TLS",
                        "schema": {"type": ["boolean", "null"], "default": True},
                    },
                    "ca_file": {"label": "CA file", "schema": {"type": ["string", "null"]}},
                    "client_cert": {
                        "label": "Client certificate file",
                        "schema": {"type": ["string", "null"]},
                    },
                    "client_key": {"label": "Client key file", "schema": {"type": ["string", "null"]}},
                },
            }
        ],
        "operators": [{"integration-name": "Freshtable", "python-modules": ["freshtable_airflow.operator"]}],
        "hooks": [{"integration-name": "Freshtable", "python-modules": ["freshtable_airflow.hook"]}],
        "triggers": [{"integration-name": "Freshtable", "python-modules": ["freshtable_airflow.trigger"]}],
        "bundles": [{"integration-name": "Freshtable", "python-modules": ["freshtable_airflow.bundle"]}],
        "extra-links": ["freshtable_airflow.link.GatewayRunLink"],
        "integrations": [{"integration-name": "Freshtable", "tags": ["service"]}],
    }
