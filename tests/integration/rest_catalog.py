"""A catalog server with Iceberg's REST protocol, over PyIceberg: it chooses where tables are,
and knows its warehouse by a name. It can lack what other servers lack.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

WAREHOUSE = "prod"
_ERRORS = {
    NoSuchTableError: (404, "NoSuchTableException"),
    NoSuchNamespaceError: (404, "NoSuchNamespaceException"),
    CommitFailedException: (409, "CommitFailedException"),
}
_REFUSED = (400, "BadRequestException")
_TABLES = "/v1/{prefix}/namespaces/{namespace}/tables"
_ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    f"GET {_TABLES}",
    f"POST {_TABLES}",
    *(f"{method} {_TABLES}/{{table}}" for method in ("GET", "POST", "DELETE")),
    f"POST {_TABLES}/{{table}}/plan",
]
Answer = dict[str, Any] | None


class Lack(Enum):
    """What a server does not do, or does in another way."""

    HISTORY = auto()
    """It shows the newest snapshot only."""
    BRANCHES = auto()
    """It answers 200 to a new branch, and does not keep it."""
    PROPERTIES = auto()
    COMPARISON = auto()
    """It applies a commit to the newest metadata without comparing branches."""
    STAGED_CREATION = auto()
    PURGE = auto()
    DROP_WITHOUT_PURGE = auto()
    METADATA_LOCATION = auto()
    SCANS_OF_CLIENTS = auto()
    """It plans scans itself."""


NESSIE = frozenset({Lack.HISTORY, Lack.BRANCHES})
"""What Nessie 0.99 lacked."""


class Refused(Exception):
    """Raised for a request that the server does not support."""


class RestCatalog:
    """The server's catalog; tables get folders of the server's own below *folder*."""

    def __init__(
        self,
        folder: Path,
        lacks: Collection[Lack] = (),
        before_commit: Callable[[list[str]], object] = lambda _actions: None,
    ) -> None:
        self._before_commit = before_commit
        self.folder, self._lock, self._lacks = folder, threading.Lock(), frozenset(lacks)
        folder.mkdir()
        self._catalog = SqlCatalog(
            "server", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}", pool_pre_ping="true"
        )

    def answer(self, method: str, parts: list[str], body: Any, query: str = "") -> Answer:
        """Answer a request; raises the errors of PyIceberg."""
        if method == "POST" and "updates" in (body or {}):
            self._before_commit([update["action"] for update in body["updates"]])
        with self._lock:
            match method, parts:
                case "GET", ["config"]:
                    plans = {"endpoints": _ENDPOINTS} if Lack.SCANS_OF_CLIENTS in self._lacks else {}
                    return {"defaults": {}, "overrides": {}, **plans}
                case "POST", ["namespaces"]:
                    self._catalog.create_namespace(".".join(body["namespace"]), body.get("properties") or {})
                    return {"namespace": body["namespace"], "properties": {}}
                case "GET", ["namespaces"]:
                    return {"namespaces": [list(each) for each in self._catalog.list_namespaces()]}
                case "GET", ["namespaces", namespace]:
                    properties = self._catalog.load_namespace_properties(namespace)
                    return {"namespace": [namespace], "properties": properties}
                case "GET", ["namespaces", namespace, "tables"]:
                    names = [each[-1] for each in self._catalog.list_tables(namespace)]
                    return {"identifiers": [{"namespace": [namespace], "name": name} for name in names]}
                case "POST", ["namespaces", namespace, "tables"]:
                    return self._create(namespace, CreateTableRequest.model_validate(body))
                case _, ["namespaces", namespace, "tables", name]:
                    return self._table(method, f"{namespace}.{name}", body, query)
        raise NoSuchTableError(f"{method} {parts}")

    def _create(self, namespace: str, request: CreateTableRequest) -> Answer:
        if request.stage_create and Lack.STAGED_CREATION in self._lacks:
            raise Refused("stage-create is not supported")
        create = self._catalog._create_staged_table if request.stage_create else self._catalog.create_table
        return self._loaded(
            create(
                f"{namespace}.{request.name}",
                request.table_schema,
                location=request.location,
                partition_spec=request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                sort_order=request.write_order or UNSORTED_SORT_ORDER,
                properties=request.properties,
            )
        )

    def _table(self, method: str, name: str, body: Any, query: str) -> Answer:
        namespace, _, table = name.partition(".")
        match method:
            case "GET":
                return self._loaded(self._catalog.load_table(name))
            case "HEAD":
                self._catalog.load_table(name)
                return None
            case "DELETE":
                purges = "purgeRequested=true" in query
                if (Lack.PURGE if purges else Lack.DROP_WITHOUT_PURGE) in self._lacks:
                    raise Refused(f"drop is not supported with {query}")
                self._catalog.drop_table(name)
                return None
        identifier = {"namespace": [namespace], "name": table}
        body["requirements"] = [each for each in body["requirements"] if self._compares(name, each)]
        commit = CommitTableRequest.model_validate({**body, "identifier": identifier})
        named = Table((namespace, table), None, "", None, self._catalog)  # type: ignore[arg-type]
        answer = self._catalog.commit_table(named, commit.requirements, commit.updates)
        return self._shown(dict(json.loads(answer.model_dump_json(by_alias=True))))

    def _compares(self, name: str, requirement: dict[str, Any]) -> bool:
        """Return whether a commit is held against a requirement."""
        if requirement["type"] != "assert-ref-snapshot-id":
            return True
        # PyIceberg refuses any branch but main in a table without snapshots; the specification does not.
        is_new = requirement["ref"] != "main" and requirement.get("snapshot-id") is None
        if is_new and not self._catalog.load_table(name).metadata.snapshots:
            return False
        return Lack.COMPARISON not in self._lacks

    def _loaded(self, table: Table) -> Answer:
        metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
        return self._shown({"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})

    def _shown(self, answer: dict[str, Any]) -> Answer:
        """Return an answer without what the server does not keep."""
        metadata = answer["metadata"]
        if Lack.SCANS_OF_CLIENTS in self._lacks and "config" in answer:
            answer["config"] = {"scan-planning-mode": "server"}
        if Lack.METADATA_LOCATION in self._lacks:
            del answer["metadata-location"]
        if Lack.PROPERTIES in self._lacks:
            metadata["properties"] = {}
        if Lack.HISTORY in self._lacks:
            newest = metadata.get("current-snapshot-id")
            metadata["snapshots"] = [each for each in metadata["snapshots"] if each["snapshot-id"] == newest]
            metadata["snapshot-log"] = []
        if self._lacks & {Lack.HISTORY, Lack.BRANCHES}:
            metadata["refs"] = {name: ref for name, ref in metadata["refs"].items() if name == "main"}
        return answer


@contextmanager
def rest_catalog(
    folder: Path,
    lacks: Collection[Lack] = (),
    before_commit: Callable[[list[str]], object] = lambda _actions: None,
) -> Iterator[str]:
    """Serve a catalog in *folder*, which is created, until the end of the block; yield its URI.

    *before_commit* is called with the actions of each commit before it is compared.
    """
    catalog = RestCatalog(folder, lacks, before_commit)

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            url = urlsplit(self.path)
            parts = [unquote(part) for part in url.path.removeprefix("/v1/").split("/")]
            status, answer = 200, None
            try:
                answer = catalog.answer(self.command, parts, body, url.query)
            except Refused as error:
                status, kind = _REFUSED
                answer = {"error": {"message": str(error), "type": kind, "code": status}}
            except tuple(_ERRORS) as error:
                status, kind = _ERRORS[type(error)]
                answer = {"error": {"message": str(error), "type": kind, "code": status}}
            text = b"" if answer is None or self.command == "HEAD" else json.dumps(answer).encode()
            self.send_response(204 if answer is None else status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = do_HEAD = _reply  # noqa: N815 - the names of http.server

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
