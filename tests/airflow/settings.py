"""The environment of an Airflow for tests: every setting that a real one needs for us,
and what keeps it small.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

USER, PASSWORD = "admin", "admin-password"
# Whom a gateway is in Airflow: what people do there can be told from what it does.
SERVICE_USER, SERVICE_PASSWORD = "freshtable", "freshtable-password"
# The package that is tested is this checkout's, whichever one the virtual environment has.
PACKAGE = Path(__file__).resolve().parents[2] / "dags"
PREFIX = "mt__"
BUNDLE = "materialized-tables"

# What docs/airflow.md asks of a real Airflow.
ASKED_FOR = {
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
}
SMALL = {
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "2",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_SIZE": "3",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW": "3",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
# Tasks at once, and one more for each further gateway.
PARALLELISM = 4
# Of no worth to anybody: they are made up here, so that all processes have the same.
JWT_SECRET = "jwt-secret-of-the-tests-" * 4
SECRETS = {
    "AIRFLOW__CORE__FERNET_KEY": "tV0x8iQm3hYb0cM0n0kq0Qm8oP1rT2uV3wX4yZ5aBcE=",
    "AIRFLOW__API__SECRET_KEY": "secret-key-of-the-tests",
    "AIRFLOW__API_AUTH__JWT_SECRET": JWT_SECRET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherGateway:
    """A further gateway that an Airflow serves."""

    url: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowSettings:
    """Where an Airflow lives, which gateway it serves, and its database:
    `postgresql://…`, or "" for SQLite in its home.
    """

    home: Path
    port: int
    gateway_url: str
    token: str = ""
    database_url: str = ""
    prefix: str = PREFIX
    refresh_interval_s: int = 30
    more: dict[str, str] = field(default_factory=dict)
    others: tuple[OtherGateway, ...] = ()

    @property
    def database(self) -> Path:
        return self.home / "airflow.db"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, venv: Path) -> dict[str, str]:
        """Return the environment of every process; nothing of an Airflow of the developer's own gets in."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))
        }
        # Modules would be compiled anew by every process.
        inherited.pop("PYTHONDONTWRITEBYTECODE", None)
        return {
            **inherited,
            "PYTHONPATH": str(PACKAGE),
            "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            **ASKED_FOR,
            **SMALL,
            **SECRETS,
            "AIRFLOW__CORE__PARALLELISM": str(PARALLELISM + len(self.others)),
            **self._places(),
            **self.gateway_environment(),
            **self.more,
        }

    def prepare(self) -> None:
        """Make the home with the file of passwords."""
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "passwords.json").write_text(
            json.dumps({USER: PASSWORD, SERVICE_USER: SERVICE_PASSWORD})
        )

    def _places(self) -> dict[str, str]:
        postgresql = self.database_url.replace("postgresql://", "postgresql+psycopg2://")
        return {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{SERVICE_USER}:user",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgresql or f"sqlite:///{self.database}?timeout=30",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(self.home / "bundles"),
        }

    def gateway_environment(self) -> dict[str, str]:
        """Return the part of it that says which gateway is served."""
        bundles, connections = [], {"AIRFLOW_CONN_FRESHTABLE_DEFAULT": self._connection(self.gateway_url)}
        for other in self.others:
            bundles.append(self._bundle(f"{BUNDLE}-{other.prefix}", other.url, other.prefix, other.prefix))
            connections[f"AIRFLOW_CONN_{other.prefix.upper()}"] = self._connection(other.url)
        # When Airflow starts, it parses the files of the last bundle first.
        bundles.append(self._bundle(BUNDLE, self.gateway_url, self.prefix, "freshtable_default"))
        return {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles)} | connections

    def _bundle(self, name: str, url: str, prefix: str, connection: str) -> dict[str, Any]:
        kwargs = {
            "gateway": url,
            "dag_id_prefix": prefix,
            "freshtable_conn_id": connection,
            "refresh_interval": self.refresh_interval_s,
        }
        return {"name": name, "classpath": "freshtable_airflow.bundle.GatewayDagBundle", "kwargs": kwargs}

    def _connection(self, url: str) -> str:
        return json.dumps({"conn_type": "freshtable", "host": url, "password": self.token})
