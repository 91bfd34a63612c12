"""The gateway over HTTP, one method per endpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from mt_core.errors import GatewayError
from mt_core.rowset import Column

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = "/v3"
ARROW_TYPE = "application/vnd.apache.arrow.stream"
ACCEPT_ARROW = {"Accept": f"{ARROW_TYPE}, application/json;q=0.5"}
RESULT_TYPE_HEADER, NEXT_URI_HEADER = "Freshtable-Result-Type", "Freshtable-Next-Result-Uri"
TIMEOUT_S = 120.0
_ROOT_CAUSE = re.compile(r"Caused by: (?!.*Caused by: )(.*?)(?=\n\tat |\n\nEnd of exception|\Z)", re.DOTALL)
_CLASS_NAME = re.compile(r"^[A-Za-z_$][\w.$]*: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an operation is; `total` 0 means that nothing is known but the message."""

    done: int
    total: int
    message: str

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Progress:
        return cls(done=body.get("tasksDone", 0), total=body.get("tasksTotal", 0), message=body.get("message", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """Some rows of a result. `run` is what a refresh run tells of itself, None for other statements."""

    columns: tuple[Column, ...]
    rows: list[list[Any]]
    is_query: bool
    has_content: bool
    job_id: str | None = None
    warnings: tuple[str, ...] = ()
    run: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ResultPage:
        return cls(
            columns=tuple(Column.from_json(column) for column in body["results"]["columns"]),
            rows=[row["fields"] for row in body["results"]["data"]],
            is_query=body["isQueryResult"],
            has_content=body["resultKind"] == "SUCCESS_WITH_CONTENT",
            job_id=body.get("jobID"),
            warnings=tuple(body.get("warnings", ())),
            run=body.get("run"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """A call of the refresh endpoint; `request_key` makes repeating it harmless, `table_id` is the table's uuid."""

    identifier: str
    is_periodic: bool = False
    schedule_time: str | None = None
    dynamic_options: Mapping[str, str] | None = None
    static_partitions: Mapping[str, str] | None = None
    execution_config: Mapping[str, str] | None = None
    request_key: str | None = None
    table_id: str | None = None
    attempt: int | None = None

    def body(self) -> dict[str, Any]:
        return {
            "isPeriodic": self.is_periodic,
            "scheduleTime": self.schedule_time,
            "dynamicOptions": dict(self.dynamic_options or {}),
            "staticPartitions": dict(self.static_partitions or {}),
            "executionConfig": dict(self.execution_config or {}),
        }

    def headers(self) -> dict[str, str]:
        named = {
            "Idempotency-Key": self.request_key,
            "Freshtable-Table": self.table_id,
            "Freshtable-Attempt": None if self.attempt is None else str(self.attempt),
        }
        return {name: value for name, value in named.items() if value is not None}


class GatewayClient:
    """One session on a gateway, opened with the first call that needs it. Every failure is a GatewayError."""

    def __init__(self, url: str, token: str | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # To load the certificates that https is checked against takes 20 ms; plain http needs none.
        verify = not self.url.startswith("http://")
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=TIMEOUT_S, transport=transport, verify=verify
        )
        self._session: str | None = None

    def __enter__(self) -> GatewayClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def session(self) -> str:
        """The handle of the session."""
        return self._session if self._session is not None else self.open_session()

    def open_session(self, name: str | None = None, properties: Mapping[str, str] | None = None) -> str:
        """Open a session in place of the present one, and return its handle."""
        body = {"sessionName": name, "properties": dict(properties or {})}
        handle: str = self._call("POST", "/sessions", body)["sessionHandle"]
        self._session = handle
        return handle

    def properties(self) -> dict[str, str]:
        """Return the effective properties of the session."""
        found: dict[str, str] = self._call("GET", self._path())["properties"]
        return found

    def execute(self, statement: str) -> str:
        """Begin a statement and return the handle of its operation."""
        handle: str = self._call("POST", self._path("/statements"), {"statement": statement})["operationHandle"]
        return handle

    def refresh(self, refresh: Refresh) -> str:
        """Ask for a refresh and return the handle of its operation, which is the id of the run."""
        path = self._path(f"/materialized-tables/{quote(refresh.identifier, safe='')}/refresh")
        handle: str = self._call("POST", path, refresh.body(), refresh.headers())["operationHandle"]
        return handle

    def status(self, operation: str) -> str:
        """Return the operation's status, such as RUNNING."""
        status: str = self._call("GET", self._operation(operation, "/status"))["status"]
        return status

    def pages(self, operation: str, on_progress: Callable[[Progress], object] | None = None) -> Iterator[ResultPage]:
        """Yield the pages of a result, the first one as soon as the operation has finished; at least one page."""
        path: str | None = self._operation(operation, "/result/0?rowFormat=JSON")
        while path is not None:
            body = self._call("GET", path)
            path = self._next(body.get("nextResultUri"))
            if body["resultType"] == "NOT_READY":
                if on_progress is not None and "progress" in body:
                    on_progress(Progress.from_json(body["progress"]))
                continue
            yield ResultPage.from_json(body)

    def arrow_pages(self, operation: str, token: int = 0) -> Iterator[pa.Table | ResultPage]:
        """Yield the pages of a result from page *token* on as Arrow tables; needs the package pyarrow.

        A gateway that has no Arrow answers pages as JSON, which are yielded with fractions as Decimal.
        """
        from mt_core.client.arrow import read_stream

        path: str | None = self._operation(operation, f"/result/{token}")
        while path is not None:
            response = self._send("GET", path, headers=ACCEPT_ARROW)
            if response.headers.get("content-type", "").startswith(ARROW_TYPE):
                path = self._next(response.headers.get(NEXT_URI_HEADER))
                if response.headers.get(RESULT_TYPE_HEADER) != "NOT_READY":
                    yield read_stream(response.content)
                continue
            body = self._answer(response)
            path = self._next(body.get("nextResultUri"))
            if body["resultType"] != "NOT_READY":
                yield ResultPage.from_json(json.loads(response.content, parse_float=Decimal))

    def fetch_arrow_batches(self, operation: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a result as Arrow batches, as the gateway sends them; needs the package pyarrow."""
        from mt_core.client.arrow import page_reader

        table_of = page_reader(self.properties)
        for page in self.arrow_pages(operation):
            yield from table_of(page).to_batches()

    def fetch_arrow(self, operation: str) -> pa.Table:
        """Return a whole result as an Arrow table; needs the package pyarrow."""
        from mt_core.client.arrow import joined, page_reader

        return joined(map(page_reader(self.properties), self.arrow_pages(operation)))

    def cancel(self, operation: str) -> None:
        self._call("POST", self._operation(operation, "/cancel"))

    def close_operation(self, operation: str) -> None:
        """Forget the operation; harmless when it is closed already."""
        self._call("DELETE", self._operation(operation, "/close"))

    def close_session(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            path, self._session = self._path(), None
            self._call("DELETE", path)

    def close(self) -> None:
        """Close the session and the connection; a gateway that is away has closed them already."""
        try:
            self.close_session()
        except GatewayError:
            self._session = None
        finally:
            self._http.close()

    def _path(self, rest: str = "") -> str:
        return f"/sessions/{self.session}{rest}"

    def _operation(self, operation: str, rest: str) -> str:
        return self._path(f"/operations/{operation}{rest}")

    @staticmethod
    def _next(uri: str | None) -> str | None:
        return None if uri is None else uri.removeprefix(VERSION)

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return self._answer(self._send(method, path, body, headers))

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        try:
            return self._http.request(method, VERSION + path, json=body, headers=headers)
        except httpx.ConnectError as cause:
            raise GatewayError(
                f"There is no gateway at {self.url} ({cause}). Is the gateway running? "
                "Start it with: freshtable gateway"
            ) from cause
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as cause:
            raise GatewayError(
                f"'{self.url}' is not the URL of a gateway ({cause}); it looks like http://host:8083."
            ) from cause
        except httpx.HTTPError as cause:
            raise GatewayError(f"The gateway at {self.url} did not answer: {cause or type(cause).__name__}.") from cause

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        try:
            body = response.json()
        except ValueError as cause:
            raise GatewayError(
                f"{self.url} answered {response.status_code} with something that is not JSON; is it a gateway?"
            ) from cause
        if not isinstance(body, dict) or response.status_code >= 400 or set(body) == {"errors"}:
            raise GatewayError(root_cause(body))
        return body


def root_cause(body: Any) -> str:
    """Return what an error body says: what follows the last `Caused by:`, without the class name, else all of it."""
    errors = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(errors, list) or not errors:
        return f"The gateway answered with an error that cannot be read: {body}"
    found = _ROOT_CAUSE.search(str(errors[-1]))
    return _CLASS_NAME.sub("", found.group(1).strip()) if found else "\n".join(str(error) for error in errors)
