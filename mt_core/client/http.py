"""The gateway over HTTP, one method per endpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import httpx

from mt_core.client.heartbeat import HEARTBEAT_S, Heartbeat
from mt_core.client.session import Opening, session_change
from mt_core.errors import GatewayError, SessionLost, SessionNotFound
from mt_core.protocol import (
    AFFECTED_ROWS_HEADER,
    ARROW_TYPE,
    ERROR_CODE_HEADER,
    ERRORS_AS_JSON,
    ERRORS_HEADER,
    NEXT_URI_HEADER,
    RESULT_TYPE_HEADER,
    is_error_body,
    read_error,
)
from mt_core.protocol import Refresh as Refresh
from mt_core.rowset import Column

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
VERSION = "/v3"
ACCEPT_ARROW = {"Accept": f"{ARROW_TYPE}, application/json;q=0.5"}
TIMEOUT_S = 120.0


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
    """Some rows of a result. `run` is what a refresh run tells of itself, None for other statements.

    `affected_rows` are those that a change wrote, None where that is not known.
    """

    columns: tuple[Column, ...]
    rows: list[list[Any]]
    is_query: bool
    has_content: bool
    job_id: str | None = None
    warnings: tuple[str, ...] = ()
    run: Mapping[str, Any] | None = None
    affected_rows: int | None = None
    is_last: bool = field(default=True, compare=False)

    @classmethod
    def from_json(cls, body: Mapping[str, Any], affected_rows: str | None = None) -> ResultPage:
        return cls(
            columns=tuple(Column.from_json(column) for column in body["results"]["columns"]),
            rows=[row["fields"] for row in body["results"]["data"]],
            is_query=body["isQueryResult"],
            has_content=body["resultKind"] == "SUCCESS_WITH_CONTENT",
            job_id=body.get("jobID"),
            warnings=tuple(body.get("warnings", ())),
            run=body.get("run"),
            affected_rows=None if affected_rows is None else int(affected_rows),
            is_last=body.get("nextResultUri") is None,
        )


class GatewayClient:
    """One session on a gateway, opened with the first call that needs it and kept open until `close`.

    Every failure is a GatewayError with the gateway's code in `code`. A session that has ended on the gateway is SessionLost;
    the next call opens another one. With *exact* fractions in JSON are read as Decimal, not as float. Threads may share it.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        exact: bool = False,
        transport: httpx.BaseTransport | None = None,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self.url, self._parse_float = url.rstrip("/"), Decimal if exact else float
        headers = {ERRORS_HEADER: ERRORS_AS_JSON, **({"Authorization": f"Bearer {token}"} if token else {})}
        # To load the certificates that https is checked against takes 20 ms; plain http needs none.
        verify = not self.url.startswith("http://")
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=TIMEOUT_S, transport=transport, verify=verify
        )
        self._session: str | None = None
        self._opening = Opening()
        # By session what statements changed, and by statement its session: answers may be late, when another is open.
        self._changes, self._statements = dict[str, list[str]](), dict[str, str]()
        self._notice: str | None = None
        self._heartbeat = Heartbeat(self._beat, heartbeat_s)
        self._opening_lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def session(self) -> str:
        """The handle of the session."""
        with self._opening_lock:
            return self._session if self._session is not None else self._open()

    def open_session(
        self, name: str | None = None, properties: Mapping[str, str] | None = None, setup: Sequence[str] = ()
    ) -> str:
        """Open a session in place of the present one, run the statements *setup* in it, and return its handle."""
        self._opening = Opening(name=name, properties=dict(properties or {}), setup=tuple(setup))
        with self._opening_lock:
            return self._open()

    def properties(self) -> dict[str, str]:
        """Return the effective properties of the session."""
        found: dict[str, str] = self._call("GET", self._path())["properties"]
        return found

    def execute(self, statement: str, *, timeout_s: float | None = None) -> str:
        """Begin a statement, which the gateway ends after *timeout_s*, and return the handle of its operation.

        A session that has ended is opened again, with a warning in the first page of the result. If statements had changed it
        it is not the same any more: then nothing is run, and SessionLost names them.
        """
        handle = self._resumed(lambda: self._begin(statement, timeout_s))
        if (change := session_change(statement)) is not None:
            self._changes.setdefault(self._statements[handle], []).append(change)
        return handle

    def refresh(self, refresh: Refresh) -> str:
        """Ask for a refresh and return the handle of its operation, which is the id of the run."""

        def begin() -> str:
            path = self._path(f"/materialized-tables/{quote(refresh.identifier, safe='')}/refresh")
            handle: str = self._call("POST", path, refresh.body(), refresh.headers())["operationHandle"]
            return handle

        return self._resumed(begin)

    def status(self, operation: str) -> str:
        """Return the operation's status, such as RUNNING."""
        status: str = self._call("GET", self._operation(operation, "/status"))["status"]
        return status

    def pages(self, operation: str, on_progress: Callable[[Progress], object] | None = None) -> Iterator[ResultPage]:
        """Yield the pages of a result, the first one as soon as the operation has finished; at least one page."""
        path: str | None = self._operation(operation, "/result/0?rowFormat=JSON")
        while path is not None:
            response = self._send("GET", path)
            body = self._answer(response)
            path = self._next(body.get("nextResultUri"))
            if body["resultType"] == "NOT_READY":
                if on_progress is not None and "progress" in body:
                    on_progress(Progress.from_json(body["progress"]))
                continue
            notice, self._notice = self._notice, None
            page = ResultPage.from_json(body, response.headers.get(AFFECTED_ROWS_HEADER))
            yield page if notice is None else replace(page, warnings=(*page.warnings, notice))

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
        """Forget the operation; harmless when it is closed already, also with its session."""
        session = self._statements.pop(operation, self._session)
        if session is None:
            return
        response = self._send("DELETE", f"/sessions/{session}/operations/{operation}/close")
        # That the session is lost, the next statement says, which this one is only tidying up for.
        if response.headers.get(ERROR_CODE_HEADER) != SessionNotFound.code:
            self._answer(response)

    def close_session(self) -> None:
        """Close the session, if there is one."""
        with self._opening_lock:
            session, self._session = self._session, None
        if session is not None:
            self._changes.pop(session, None)
            self._call("DELETE", f"/sessions/{session}")

    def close(self) -> None:
        """Close the session and the connection; a gateway that is away has closed them already."""
        self._heartbeat.stop()
        try:
            self.close_session()
        except GatewayError:
            self._session = None
        finally:
            self._http.close()

    def _open(self) -> str:
        opening = self._opening
        body = {"sessionName": opening.name, "properties": dict(opening.properties)}
        handle: str = self._call("POST", "/sessions", body)["sessionHandle"]
        self._session = handle
        self._heartbeat.start()
        try:
            self._set_up(opening.setup)
        except GatewayError:
            # Nothing may run in a session that is not set up.
            with suppress(GatewayError):
                self.close_session()
            raise
        return handle

    def _set_up(self, statements: Sequence[str]) -> None:
        for statement in statements:
            operation = self._begin(statement)
            for _page in self.pages(operation):
                pass
            self.close_operation(operation)

    def _begin(self, statement: str, timeout_s: float | None = None) -> str:
        body: dict[str, Any] = {"statement": statement}
        if timeout_s is not None:
            body["executionTimeout"] = max(1, round(timeout_s * 1000))
        session = self.session
        handle: str = self._call("POST", f"/sessions/{session}/statements", body)["operationHandle"]
        self._statements[handle] = session
        return handle

    def _resumed(self, begin: Callable[[], T]) -> T:
        try:
            return begin()
        except SessionLost as lost:
            if lost.changes:
                raise SessionLost(f"{lost} This statement was not run.", lost.changes) from lost
            answer = begin()
            self._notice = "The session had ended on the gateway, and was opened again; nothing was lost with it."
            return answer

    def _beat(self) -> None:
        session = self._session
        if session is not None:
            # The answer is not looked at: whoever runs the next statement has to hear of a session that is lost.
            with suppress(GatewayError):
                self._send("POST", f"/sessions/{session}/heartbeat", {})

    def _lost(self, path: str) -> SessionLost:
        with self._opening_lock:
            session = path.removeprefix(VERSION).split("/")[2]
            changes = tuple(self._changes.get(session, ()))
            if self._session == session:
                self._session = None
        lost = f" What it had is lost: {'; '.join(changes)}. Run that again first." if changes else ""
        return SessionLost(
            f"The session on {self.url} has ended, with the results of its statements: the gateway was restarted, or had heard "
            f"nothing of it for sql-gateway.session.idle-timeout. The next statement opens another one.{lost}",
            changes,
        )

    def _path(self, rest: str = "") -> str:
        return f"/sessions/{self.session}{rest}"

    def _operation(self, operation: str, rest: str) -> str:
        return f"/sessions/{self._statements.get(operation) or self.session}/operations/{operation}{rest}"

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
            body = response.json(parse_float=self._parse_float)
        except ValueError as cause:
            raise GatewayError(
                f"{self.url} answered {response.status_code} with something that is not JSON; is it a gateway?"
            ) from cause
        if not isinstance(body, dict) or response.status_code >= 400 or is_error_body(body):
            code = response.headers.get(ERROR_CODE_HEADER)
            if code == SessionNotFound.code:
                raise self._lost(response.request.url.path)
            raise read_error(body, code)
        return body
