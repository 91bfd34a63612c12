"""The gateway's REST API (FLIP-91), with one method per endpoint.

A session can disappear at any time: the gateway closes idle sessions, and a restart loses all of them.
Reopening a session without notice would be wrong if statements such as SET or USE had changed it, because the
next statement would then run with other settings. The client therefore remembers how the session was opened
(`Opening`) and which statements changed it. If a statement finds its session lost and nothing had changed it,
the statement runs in a new session, with a warning in its result. If statements had changed it, SessionLost
lists the lost changes, and the statement is not run.

Operations remember their own session, because a new one may be open when their results are fetched. A
heartbeat keeps a session alive while a program is idle. Its failures are ignored, because the next statement
reports them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
from httpx import codes

from mt_core.base.address import Address
from mt_core.base.protocol import (
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
from mt_core.base.protocol import Refresh as Refresh
from mt_core.base.statement.session_changes import session_change
from mt_core.client.pages import Progress as Progress
from mt_core.client.pages import ResultPage as ResultPage
from mt_core.client.session import HEARTBEAT_S, Closing, Heartbeat, Opening
from mt_core.errors import GatewayError, SessionLost, SessionNotFound

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = "/v3"
ACCEPT_ARROW = {"Accept": f"{ARROW_TYPE}, application/json;q=0.5"}
TIMEOUT_S = 120.0


class GatewayRefused(GatewayError):
    """The client cannot talk to a gateway, because none responds or because it rejects the token."""

    internal = True


class GatewayClient(Closing):
    """One session on a gateway, opened by the first call that needs it and kept alive until `close`.

    Thread-safe. Every failure is a GatewayError with the gateway's code in `code`. A call in a session that
    the gateway has closed raises SessionLost; the next call opens another session. With *exact*, JSON
    fractions become Decimal instead of float.
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
        address = Address.of(self.url)
        if transport is None and address.socket is not None:
            transport = httpx.HTTPTransport(uds=address.socket, verify=False)
        headers = {ERRORS_HEADER: ERRORS_AS_JSON, **({"Authorization": f"Bearer {token}"} if token else {})}
        # Loading certificates takes 20 ms, which plain http does not need.
        verify = not address.base_url.startswith("http://")
        self._http = httpx.Client(
            base_url=address.base_url, headers=headers, timeout=TIMEOUT_S, transport=transport, verify=verify
        )
        self._session: str | None = None
        self._opening = Opening()
        # The statements that changed each session, and the session of each operation, because another session
        # may be open when the result is fetched.
        self._changes, self._operations = dict[str, list[str]](), dict[str, str]()
        self._notice: str | None = None
        self._heartbeat = Heartbeat(self._beat, heartbeat_s)
        self._opening_lock = threading.RLock()

    @property
    def session(self) -> str:
        """The handle of the session, which is opened if necessary."""
        with self._opening_lock:
            return self._session if self._session is not None else self._open()

    def open_session(
        self, name: str | None = None, properties: Mapping[str, str] | None = None, setup: Sequence[str] = ()
    ) -> str:
        """Open a session in place of the current one and run the statements *setup* in it.

        Return the handle of the session.
        """
        self.prepare_session(name, properties, setup)
        with self._opening_lock:
            return self._open()

    def prepare_session(
        self, name: str | None = None, properties: Mapping[str, str] | None = None, setup: Sequence[str] = ()
    ) -> None:
        """Set how the first call that needs a session opens it."""
        self._opening = Opening(name=name, properties=dict(properties or {}), setup=tuple(setup))

    @property
    def has_session(self) -> bool:
        """Whether a session is open, as far as this client knows."""
        return self._session is not None

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return a resource that belongs to no session, such as `/info`; *path* begins with a slash."""
        return self._answer(self._request("GET", path, parameters=parameters))

    def properties(self) -> dict[str, str]:
        """Return the effective properties of the session."""
        properties: dict[str, str] = self._call("GET", f"/sessions/{self.session}")["properties"]
        return properties

    def execute(
        self, statement: str, *, timeout_s: float | None = None, properties: Mapping[str, str] | None = None
    ) -> str:
        """Start a statement and return the handle of its operation.

        The gateway stops the statement after *timeout_s*. The *properties* override those of the session for
        this statement only. If the session was lost, the statement runs in a new session, with a warning on
        the first page of its result. If earlier statements had changed the lost session, the statement does
        not run, and SessionLost lists them.
        """
        body: dict[str, Any] = {"statement": statement}
        if timeout_s is not None:
            body["executionTimeout"] = max(1, round(timeout_s * 1000))
        if properties:
            body["executionConfig"] = dict(properties)
        handle = self._begin_or_reopen("/statements", body)
        if (change := session_change(statement)) is not None:
            self._changes.setdefault(self._operations[handle], []).append(change)
        return handle

    def plan(self, name: str) -> str:
        """Return the text of a compiled plan in the folder of the session."""
        text: str = self._call("GET", self._plan(name))["plan"]
        return text

    def store_plan(self, name: str, text: str) -> None:
        """Store a compiled plan in the folder of the session, for `EXECUTE PLAN 'name'`."""
        try:
            self._call("PUT", self._plan(name), {"plan": text})
        except SessionLost as lost:
            if lost.changes:
                raise
            self._call("PUT", self._plan(name), {"plan": text})

    def refresh(self, refresh: Refresh) -> str:
        """Request a refresh and return the handle of its operation, which is the id of the run."""
        path = f"/materialized-tables/{quote(refresh.identifier, safe='')}/refresh"
        handle = self._begin_or_reopen(path, refresh.body(), refresh.headers())
        # A refresh outlives the session that requested it, and any session can read it.
        del self._operations[handle]
        return handle

    def status(self, operation: str) -> str:
        """Return the operation's status, such as RUNNING."""
        status: str = self._call("GET", self._operation(operation, "/status"))["status"]
        return status

    def pages(
        self, operation: str, on_progress: Callable[[Progress], object] | None = None
    ) -> Iterator[ResultPage]:
        """Yield the pages of a result, at least one. The first page comes when the operation has finished."""
        for response, body in self._results(operation, "0?rowFormat=JSON"):
            if body["resultType"] == "NOT_READY":
                if on_progress is not None and "progress" in body:
                    on_progress(Progress.from_json(body["progress"]))
                continue
            notice, self._notice = self._notice, None
            page = ResultPage.from_json(body, response.headers.get(AFFECTED_ROWS_HEADER))
            yield page if notice is None else replace(page, warnings=(*page.warnings, notice))

    def arrow_pages(self, operation: str, token: int = 0) -> Iterator[pa.Table | ResultPage]:
        """Yield the pages of a result from page *token* on as Arrow tables. Requires pyarrow.

        Pages of a gateway without Arrow support are yielded as ResultPage, with fractions as Decimal.
        """
        from mt_core.client.arrow import read_stream

        for response, body in self._results(operation, str(token), ACCEPT_ARROW):
            if body["resultType"] == "NOT_READY":
                continue
            if "results" in body:
                yield ResultPage.from_json(json.loads(response.content, parse_float=Decimal))
            else:
                yield read_stream(response.content)

    def fetch_arrow_batches(self, operation: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a result as Arrow record batches, as received from the gateway.

        Requires pyarrow.
        """
        from mt_core.client.arrow import as_tables

        for table in as_tables(self.arrow_pages(operation), self.properties):
            yield from table.to_batches()

    def fetch_arrow(self, operation: str) -> pa.Table:
        """Return a complete result as an Arrow table. Requires pyarrow."""
        import pyarrow as pa

        from mt_core.client.arrow import as_tables

        return pa.concat_tables(as_tables(self.arrow_pages(operation), self.properties))

    def complete(self, statement: str, position: int) -> list[str]:
        """Return the completions at *position* of a statement. Empty if no session is open.

        If the session is lost, the next statement reports that.
        """
        session = self._session
        if session is None:
            return []
        body = {"statement": statement, "position": position}
        response = self._send("GET", f"/sessions/{session}/complete-statement", body)
        if response.headers.get(ERROR_CODE_HEADER) == SessionNotFound.code:
            return []
        candidates: list[str] = self._answer(response)["candidates"]
        return candidates

    def cancel(self, operation: str) -> None:
        self._call("POST", self._operation(operation, "/cancel"))

    def close_operation(self, operation: str) -> None:
        """Close the operation. Has no effect if it or its session is already closed."""
        session = self._operations.pop(operation, self._session)
        if session is None:
            return
        response = self._send("DELETE", f"/sessions/{session}/operations/{operation}/close")
        # The next statement reports a lost session; this call only cleans up.
        if response.headers.get(ERROR_CODE_HEADER) != SessionNotFound.code:
            self._answer(response)

    def close_session(self) -> None:
        """Close the session, if one is open."""
        with self._opening_lock:
            session, self._session = self._session, None
        if session is not None:
            self._changes.pop(session, None)
            self._call("DELETE", f"/sessions/{session}")

    def close(self) -> None:
        """Close the session and the connections, even if the gateway does not respond."""
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
            for statement in opening.setup:
                operation = self._begin("/statements", {"statement": statement})
                for _page in self.pages(operation):
                    pass
                self.close_operation(operation)
        except GatewayError:
            # A session without its setup must not be used.
            with suppress(GatewayError):
                self.close_session()
            raise
        return handle

    def _begin(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> str:
        """Start an operation with a request to *path* in the session and return its handle."""
        session = self.session
        handle: str = self._call("POST", f"/sessions/{session}{path}", body, headers)["operationHandle"]
        self._operations[handle] = session
        return handle

    def _begin_or_reopen(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> str:
        """Start an operation, in a new session if the old one was lost and had no changes.

        Raises SessionLost if it had changes.
        """
        try:
            return self._begin(path, body, headers)
        except SessionLost as lost:
            if lost.changes:
                raise SessionLost(f"{lost} This statement was not run.", lost.changes) from lost
            handle = self._begin(path, body, headers)
            self._notice = "The gateway had closed the session; a new one was opened, and nothing was lost."
            return handle

    def _beat(self) -> None:
        session = self._session
        if session is not None:
            # The response does not matter, because the next statement reports a lost session.
            with suppress(GatewayError):
                self._send("POST", f"/sessions/{session}/heartbeat", {})

    def _lost(self, path: str) -> SessionLost:
        with self._opening_lock:
            session = path.removeprefix(VERSION).split("/")[2]
            changes = tuple(self._changes.get(session, ()))
            if self._session == session:
                self._session = None
        lost = f" Its changes are lost: {'; '.join(changes)}. Run them again first." if changes else ""
        return SessionLost(
            f"The session on {self.url} has ended, with the results of its statements: "
            "the gateway was restarted, or the session was idle for sql-gateway.session.idle-timeout. "
            f"The next statement opens another one.{lost}",
            changes,
        )

    def _plan(self, name: str) -> str:
        return f"/sessions/{self.session}/plans/{quote(name, safe='')}"

    def _operation(self, operation: str, rest: str) -> str:
        return f"/sessions/{self._operations.get(operation) or self.session}/operations/{operation}{rest}"

    def _results(
        self, operation: str, first: str, headers: Mapping[str, str] | None = None
    ) -> Iterator[tuple[httpx.Response, dict[str, Any]]]:
        """Yield *first* and the later responses of a result, with their fields.

        The fields of an Arrow response are in headers.
        """
        path = self._operation(operation, f"/result/{first}")
        while True:
            response = self._send("GET", path, headers=headers)
            if response.headers.get("content-type", "").startswith(ARROW_TYPE):
                fields = {"resultType": RESULT_TYPE_HEADER, "nextResultUri": NEXT_URI_HEADER}
                body = {name: response.headers.get(header) for name, header in fields.items()}
            else:
                body = self._answer(response)
            following: str | None = body.get("nextResultUri")
            yield response, body
            if following is None:
                return
            path = following.removeprefix(VERSION)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        return self._answer(self._send(method, path, body, headers))

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        return self._request(method, VERSION + path, body, headers)

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        try:
            return self._http.request(method, path, json=body, headers=headers, params=parameters)
        except httpx.ConnectError as cause:
            raise GatewayRefused(
                f"There is no gateway at {self.url} ({cause}). Is the gateway running? "
                "Start it with: freshtable gateway"
            ) from cause
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as cause:
            raise GatewayRefused(
                f"'{self.url}' is not the URL of a gateway ({cause}); write for example http://host:8083."
            ) from cause
        except httpx.HTTPError as cause:
            raise GatewayRefused(
                f"The gateway at {self.url} did not answer: {cause or type(cause).__name__}."
            ) from cause

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        try:
            body = response.json(parse_float=self._parse_float)
        except ValueError as cause:
            raise GatewayRefused(
                f"{self.url} answered {response.status_code} with something that is not "
                "JSON; is it a gateway?"
            ) from cause
        if not isinstance(body, dict) or response.status_code >= 400 or is_error_body(body):
            if response.headers.get(ERROR_CODE_HEADER) == SessionNotFound.code:
                raise self._lost(response.request.url.path)
            error = read_error(body, response.headers)
            if response.status_code == codes.UNAUTHORIZED:
                raise GatewayRefused(
                    error.message, code=error.code, facts=error.facts, request_id=error.request_id
                )
            raise error
        return body
