"""The DAG bundle: one file for each of the gateway's shards, with a DAG for each of its materialized tables.

It runs in Airflow's DAG processor and in each worker. It has no versions, because a task always refreshes the
current table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.base import BaseDagBundle
from airflow.sdk import get_parsing_context

from freshtable_airflow.cache import ShardCache, write_whole
from freshtable_airflow.factory import DEFAULT_PREFIX, DagSettings
from freshtable_airflow.hook import DEFAULT_CONNECTION
from freshtable_airflow.shard import SHARDS
from freshtable_airflow.sync import GatewayChoice, pull_shards

# A parse that began before a file was written has certainly ended after this time.
SETTLED_S = 5.0

# Airflow searches a file for the words dag and airflow before it parses it as a DAG file.
FILE = '''"""Materialized tables, an Airflow DAG each. Written by GatewayDagBundle for state {state}; do not edit."""

from freshtable_airflow.factory import DagSettings
from freshtable_airflow.loader import load_file

load_file(globals(), __file__, {number}, {settings!r})
{statements}'''  # noqa: E501
# The maximum length of a statement in the file, which Airflow stores once for each of its DAGs.
LONGEST_STATEMENT = 4000


class GatewayDagBundle(BaseDagBundle):
    """The bundle to configure in `[dag_processor] dag_bundle_config_list`.

    `gateway` is the gateway's URL and `token` its token; the connection may provide both instead.
    `dag_id_prefix` must be the same as in the gateway's settings.
    """

    supports_versioning = False

    def __init__(
        self,
        *,
        gateway: str = "",
        token: str = "",
        freshtable_conn_id: str = DEFAULT_CONNECTION,
        dag_id_prefix: str = DEFAULT_PREFIX,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._choice = GatewayChoice(gateway=gateway, token=token, freshtable_conn_id=freshtable_conn_id)
        self._settings = DagSettings(dag_id_prefix=dag_id_prefix, freshtable_conn_id=freshtable_conn_id)
        self._cache = ShardCache(self.base_dir / "definitions")
        self._written: dict[int, float] = {}

    @property
    def path(self) -> Path:
        return self.base_dir / "files"

    def get_current_version(self) -> None:
        return None

    def initialize(self) -> None:
        """Write the files of all shards, even if the gateway has never answered.

        In a task, only the file of the task's own shard is updated.
        """
        dag_id = get_parsing_context().dag_id
        number = self._cache.shard_with(dag_id) if dag_id else None
        self._bring_up_to_date(range(SHARDS) if number is None else [number])
        super().initialize()

    def refresh(self) -> None:
        """Update all files and touch recently written files once if they have not been parsed since.

        Airflow loses a change, or a request of the gateway, that coincides with a parse of the same file. The
        parse has read the old content, but counts as later than the change. Without the touch, the change
        would not be read before the next full round.
        """
        self._bring_up_to_date(range(SHARDS))
        settled = time.monotonic() - SETTLED_S
        for number in [number for number, written in self._written.items() if written <= settled]:
            del self._written[number]
            if not self._cache.is_parsed(number, self._cache.state(number)):
                self._file(number).touch()

    def _bring_up_to_date(self, numbers: Iterable[int]) -> None:
        pull_shards(self._choice, self._cache, numbers)
        texts = {}
        for number in numbers:
            statements = "".join(_comment(body) for body in self._cache.read(number).workflows)
            state, settings = self._cache.state(number), self._settings
            texts[number] = FILE.format(state=state, number=number, settings=settings, statements=statements)
        changed = {number: text for number, text in texts.items() if _read(self._file(number)) != text}
        if not changed:
            return
        # A rewritten file is parsed again, so only one of the processes that notice a change may write it.
        with self.lock():
            for number, text in changed.items():
                if _read(self._file(number)) != text:
                    write_whole(self._file(number), text)
                    self._written[number] = time.monotonic()

    def _file(self, number: int) -> Path:
        return self.path / f"{self._settings.dag_id_prefix}shard_{number:02d}.py"


def _comment(body: Any) -> str:
    """Return the statement of a table as a comment, for people who read the DAG's code.

    Users of the gateway wrote the statement, and Airflow executes the file. So each line must be a comment of
    printable characters.
    """
    text = str(body.get("definition") or "") if isinstance(body, dict) else ""
    if len(text) > LONGEST_STATEMENT:
        text = f"{text[:LONGEST_STATEMENT]} …"
    lines = ["".join(each if each.isprintable() else " " for each in line) for line in text.splitlines()]
    return "\n" + "".join(f"# {line}\n" for line in lines) if lines else ""


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
