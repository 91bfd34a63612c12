"""A client of Airflow's public REST API: login, retries, and errors that say how to fix the problem.

Airflow may be unavailable or busy for a while, or it may be misconfigured. The client distinguishes the two.
Lost connections and 5xx responses are retried (`PAUSES_S`) and then raise AirflowAway, after which callers
may try again. Any other unexpected response raises WorkflowError, which names the setting to correct.
Retrying is safe because every call is idempotent, which callers must preserve. A token expires at an unknown
time, so a rejected token is replaced once per call, and a lock ensures that concurrent calls log in only
once. Redirects are not followed and the environment (proxies, .netrc) is ignored, so that credentials are not
sent to any other server.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from http.cookiejar import DefaultCookiePolicy
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from mt_core.clock import Clock
from mt_core.errors import WorkflowError
from scheduler_plugins.airflow.settings import PREFIX, AirflowSettings

API = "/api/v2"
OK = 200
CREATED = 201
NO_CONTENT = 204
UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
SERVER_ERROR = 500
INVALID_TOKEN = "Invalid JWT token"
DATABASE_ERROR = "Database error"
# Pauses between the attempts of a call, in seconds; repeating calls is safe because all of them are
# idempotent.
PAUSES_S = (0.2, 0.8)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_DETAIL = 500
# The size of the connection pool; a call waits while all connections are in use.
_CONNECTIONS = 10
# Transient failures: no connection, a timeout, a truncated response.
_LOST = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)

Answer = requests.Response
T = TypeVar("T")


class AirflowAway(WorkflowError):
    """Raised if Airflow is unreachable or temporarily unable to serve a call, as opposed to rejecting it."""


class AirflowClient:
    """Calls one Airflow as one user. Thread-safe. After `close`, every call fails."""

    def __init__(self, settings: AirflowSettings, clock: Clock) -> None:
        self.endpoint, self._settings, self._clock = settings.endpoint, settings, clock
        self._login = threading.Lock()
        self._token = settings.token
        self.closed = threading.Event()
        self._http = _session(settings)

    def close(self) -> None:
        self.closed.set()
        self._http.close()

    def get(
        self, path: str, params: Mapping[str, Any] | None = None, *, accept: Collection[int] = (OK,)
    ) -> Answer:
        """Send a GET request and return the response.

        Raises WorkflowError if there is no response, or if its status is not in *accept*.
        """
        return self.call("GET", path, accept=accept, params=params)

    def call(self, method: str, path: str, *, accept: Collection[int], **request: Any) -> Answer:
        """Send a request with any method and return the response, as `get` does.

        *request* contains `params` or `json`. A status of 500 or above is retried, unless it is in *accept*
        and Airflow's database is not busy.
        """
        for pause_s in (*PAUSES_S, None):
            try:
                answer = self._authorized(method, API + path, **request)
            except _LOST as cause:
                if pause_s is None or self.closed.is_set():
                    raise self._unreachable(cause) from cause
            except (OSError, ValueError) as cause:
                # Every exception of requests is an OSError, and so is a missing CA file.
                raise self._unreachable(cause) from cause
            else:
                if answer.status_code in accept and not _is_busy(answer):
                    return answer
                if pause_s is None or not _is_passing(answer):
                    raise self._refused(answer, f"{method} {API}{path}")
            self.pause(pause_s)
        raise AssertionError("the last try returns or raises")

    def pause(self, seconds: float) -> None:
        """Wait for *seconds*; raise WorkflowError if the scheduler is closed in the meantime."""
        if self._clock.wait(timedelta(seconds=seconds), self.closed):
            raise WorkflowError(
                "The Airflow scheduler was closed while it waited for Airflow; start the gateway again."
            )

    def read(self, answer: Answer, shape: Callable[[Any], T]) -> T:
        """Return the response's JSON after converting it with *shape*.

        Raises WorkflowError if the response does not come from Airflow.
        """
        try:
            body = answer.json()
        except ValueError as cause:
            raise self._foreign(answer, "something other than JSON") from cause
        try:
            return shape(body)
        except (LookupError, TypeError, ValueError, AttributeError) as cause:
            raise self._foreign(answer, f"unexpected JSON ({type(cause).__name__}: {cause})") from cause

    # -------------------------------------------------------------------------------------------------- login

    def _send(self, method: str, path: str, **request: Any) -> Answer:
        """Send one request without following redirects, so that no other server receives the credentials."""
        if self.closed.is_set():
            # A closed requests.Session would open connections again.
            raise WorkflowError(
                f"The client of Airflow at {self.endpoint} is closed; start the gateway again."
            )
        timeout = (self._settings.request_timeout_s, self._settings.request_timeout_s)
        return self._http.request(
            method, self.endpoint + path, timeout=timeout, allow_redirects=False, **request
        )

    def _authorized(self, method: str, path: str, **request: Any) -> Answer:
        """Send a request with the current token, and again with a new token if Airflow rejects it."""
        token = self._token or self._new_token("")
        for is_last in (False, True):
            headers = {"Authorization": f"Bearer {token}"}
            answer = self._send(method, path, headers=headers, **request)
            is_invalid = answer.status_code == FORBIDDEN and detail_of(answer) == INVALID_TOKEN
            if (
                is_last
                or not (is_invalid or answer.status_code == UNAUTHORIZED)
                or not self._settings.user_name
            ):
                break
            token = self._new_token(token)
        return answer

    def _new_token(self, old: str) -> str:
        """Log in and return the new token, unless another thread has already replaced *old*."""
        with self._login:
            if self._token == old:
                credentials = {"username": self._settings.user_name, "password": self._settings.password}
                answer = self._send("POST", "/auth/token", json=credentials)
                if _is_passing(answer):
                    message = f"POST /auth/token was answered with {answer.status_code}: {detail_of(answer)}"
                    raise requests.ConnectionError(message, request=answer.request)
                if answer.status_code != CREATED:
                    raise self._refused(answer, "POST /auth/token")
                self._token = self.read(answer, lambda body: str(body["access_token"]))
            return self._token

    # ------------------------------------------------------------------------------------------------- errors

    def _unreachable(self, cause: Exception) -> WorkflowError:
        kind = AirflowAway if isinstance(cause, _LOST) else WorkflowError
        return kind(
            f"Airflow at {self.endpoint} cannot be reached ({_reason(cause)}); make sure that "
            f"its api-server runs there, or correct {PREFIX}endpoint."
        )

    def _foreign(self, answer: Answer, what: str) -> WorkflowError:
        return WorkflowError(
            f"{self.endpoint} answered {urlsplit(answer.url).path} with {what}; "
            f"make sure that {PREFIX}endpoint is the URL of Airflow's api-server."
        )

    def _refused(self, answer: Answer, what: str) -> WorkflowError:
        """Return the error for a rejected call, with a solution for the gateway's operator."""
        user = (
            f"user {self._settings.user_name!r}"
            if self._settings.user_name
            else f"the token in {PREFIX}token"
        )
        detail = detail_of(answer)
        if answer.status_code == UNAUTHORIZED or detail == INVALID_TOKEN:
            way_out = (
                "Correct {0}user-name and {0}password"
                if self._settings.user_name
                else "Get a new one for {0}token"
            )
            text = f"Airflow at {self.endpoint} rejects {user}: {detail}. {way_out.format(PREFIX)}."
        elif answer.status_code == FORBIDDEN:
            text = (
                f"Airflow at {self.endpoint} lacks rights for {user}: {what} is forbidden ({detail}); "
                "give it the role Op."
            )
        elif answer.status_code in _REDIRECTS:
            text = (
                f"Airflow at {self.endpoint} answered {what} with {answer.status_code}, a redirect to "
                f"{answer.headers.get('Location', 'nowhere')}; "
                f"set {PREFIX}endpoint to the URL at which Airflow itself answers."
            )
        else:
            text = f"Airflow at {self.endpoint} answered {what} with {answer.status_code}: {detail}."
            if _is_passing(answer):
                text += (
                    " See the log of its api-server; the gateway continues as soon as Airflow "
                    "serves such calls."
                )
        return AirflowAway(text) if _is_passing(answer) else WorkflowError(text)


def detail_of(answer: Answer) -> str:
    """Return the error detail of a response: Airflow's `detail`, the reason in it, or else the text."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text.strip()[:_LONGEST_DETAIL] or answer.reason
    if isinstance(detail, dict):
        return str(detail.get("reason", detail))[:_LONGEST_DETAIL]
    return str(detail)[:_LONGEST_DETAIL].rstrip(".")


def _reason(cause: Exception) -> str:
    """Return the root cause inside the exceptions of requests and urllib3."""
    inner = cause.args[0] if cause.args and isinstance(cause.args[0], Exception) else cause
    reason = getattr(inner, "reason", None) or inner
    # urllib3's messages begin with the connection, which is redundant because our error names the endpoint.
    return str(reason).partition("): ")[2] or str(reason)


def _is_busy(answer: Answer) -> bool:
    """Return whether Airflow's database was too busy for the call, which then changed nothing."""
    return answer.status_code == SERVER_ERROR and detail_of(answer) == DATABASE_ERROR


def _is_passing(answer: Answer) -> bool:
    """Return whether the same call may succeed later, because the server failed or is unavailable."""
    return answer.status_code >= SERVER_ERROR


def _session(settings: AirflowSettings) -> requests.Session:
    """Return a session that ignores the environment (proxies, .netrc, certificates) and stores no cookies."""
    session = requests.Session()
    session.trust_env = False
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.mount(settings.endpoint, HTTPAdapter(pool_maxsize=_CONNECTIONS, pool_block=True))
    if settings.ca_file:
        try:
            ssl.create_default_context(cafile=settings.ca_file)
        except (OSError, ssl.SSLError) as cause:
            raise WorkflowError(f"{PREFIX}ca-file: {settings.ca_file} cannot be used: {cause}.") from cause
        session.verify = settings.ca_file
    return session
