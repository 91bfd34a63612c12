"""A catalog server with Iceberg's REST protocol, over PyIceberg: it chooses where tables are,
and knows its warehouse by a name.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
Answer = dict[str, Any] | None


class RestCatalog:
    """The server's catalog; tables get folders of the server's own below *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._lock = folder, threading.Lock()
        folder.mkdir()
        self._catalog = SqlCatalog(
            "server", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}", pool_pre_ping="true"
        )

    def answer(self, method: str, parts: list[str], body: Any) -> Answer:
        """Answer a request; raises the errors of PyIceberg."""
        with self._lock:
            match method, parts:
                case "GET", ["config"]:
                    return {"defaults": {}, "overrides": {}}
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
                    return self._table(method, f"{namespace}.{name}", body)
        raise NoSuchTableError(f"{method} {parts}")

    def _create(self, namespace: str, request: CreateTableRequest) -> Answer:
        create = self._catalog._create_staged_table if request.stage_create else self._catalog.create_table
        return _loaded(
            create(
                f"{namespace}.{request.name}",
                request.table_schema,
                location=request.location,
                partition_spec=request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                sort_order=request.write_order or UNSORTED_SORT_ORDER,
                properties=request.properties,
            )
        )

    def _table(self, method: str, name: str, body: Any) -> Answer:
        namespace, _, table = name.partition(".")
        match method:
            case "GET":
                return _loaded(self._catalog.load_table(name))
            case "DELETE":
                self._catalog.drop_table(name)
                return None
        identifier = {"namespace": [namespace], "name": table}
        commit = CommitTableRequest.model_validate({**body, "identifier": identifier})
        named = Table((namespace, table), None, "", None, self._catalog)  # type: ignore[arg-type]
        answer = self._catalog.commit_table(named, commit.requirements, commit.updates)
        return dict(json.loads(answer.model_dump_json(by_alias=True)))


def _loaded(table: Table) -> Answer:
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


@contextmanager
def rest_catalog(folder: Path) -> Iterator[str]:
    """Serve a catalog in *folder*, which is created, until the end of the block; yield its URI."""
    catalog = RestCatalog(folder)

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            parts = [unquote(part) for part in urlsplit(self.path).path.removeprefix("/v1/").split("/")]
            status, answer = 200, None
            try:
                answer = catalog.answer(self.command, parts, body)
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
