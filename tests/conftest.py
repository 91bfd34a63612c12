from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.postgres import find_binaries, fresh_database, start_postgres

_databases = count(1)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server, started when the first test asks for it."""
    if find_binaries() is None:
        pytest.skip("there is no PostgreSQL server: install postgresql or pip install pgserver")
    # Not a pytest folder: those are closed to the account that the server runs under.
    folder = Path(tempfile.mkdtemp(prefix="freshtable-postgres-"))
    try:
        with start_postgres(folder) as url:
            yield url
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    with fresh_database(postgres_url, f"test_{next(_databases)}") as url:
        yield url
