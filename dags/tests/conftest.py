from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator

# Before Airflow is imported: it reads where it lives, and makes files there, at its first import.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="freshtable-airflow-home-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{os.environ['AIRFLOW_HOME']}/airflow.db"

import pytest
from stub_gateway import TOKEN, StubGateway


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubGateway]:
    """A gateway over HTTP, which the connection freshtable_default leads to."""
    with StubGateway() as gateway:
        connection = {"conn_type": "freshtable", "host": gateway.url, "password": TOKEN}
        monkeypatch.setenv("AIRFLOW_CONN_FRESHTABLE_DEFAULT", json.dumps(connection))
        yield gateway
