"""HTTP to Airflow's public REST API: login, safe repeats, and errors that name the way out."""

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
# Waits between the tries of a call, in seconds; each call may be repeated,
# because all of ours are idempotent.
PAUSES_S = (0.2, 0.8)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_DETAIL = 500
# A call waits for one of these connections while all are busy.
_CONNECTIONS = 10
# What can pass by itself: no connection, none in time, an answer that breaks off.
_LOST = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)

Answer = requests.Response
T = TypeVar("T")


class AirflowAway(WorkflowError):
    """Airflow does not answer, or answers that it cannot serve the call at the moment; it does not refuse."""


class AirflowClient:
    """Calls of one Airflow as one user; safe from any thread. After `close` every call fails."""

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
        """Return the answer of GET, whose status is one of *accept*;
        raises WorkflowError for any other status or no answer.
        """
        return self.call("GET", path, accept=accept, params=params)

    def call(self, method: str, path: str, *, accept: Collection[int], **request: Any) -> Answer:
        """Do the same for any method; *request* has `params` or `json`.

        An Airflow that answers 500 or more is tried again, unless the status is one of *accept*
        and its database is not busy.
        """
        for pause_s in (*PAUSES_S, None):
            try:
                answer = self._authorized(method, API + path, **request)
            except _LOST as cause:
                if pause_s is None or self.closed.is_set():
                    raise self._unreachable(cause) from cause
            except (OSError, ValueError) as cause:
                # All that requests raises is an OSError, and so is a CA file that is gone.
                raise self._unreachable(cause) from cause
            else:
                if answer.status_code in accept and not _is_busy(answer):
                    return answer
                if pause_s is None or not _is_passing(answer):
                    raise self._refused(answer, f"{method} {API}{path}")
            self.pause(pause_s)
        raise AssertionError("the last try returns or raises")

    def pause(self, seconds: float) -> None:
        """Wait so many seconds; raises WorkflowError if the scheduler is closed before that."""
        if self._clock.wait(timedelta(seconds=seconds), self.closed):
            raise WorkflowError(
                "The Airflow scheduler was closed while it waited for Airflow; start the gateway again."
            )

    def read(self, answer: Answer, shape: Callable[[Any], T]) -> T:
        """Return what *shape* makes of an answer's JSON; raises WorkflowError for an answer
        that is not Airflow's.
        """
        try:
            body = answer.json()
        except ValueError as cause:
            raise self._foreign(answer, "something else than JSON") from cause
        try:
            return shape(body)
        except (LookupError, TypeError, ValueError, AttributeError) as cause:
            raise self._foreign(answer, f"JSON of another shape ({type(cause).__name__}: {cause})") from cause

    # -------------------------------------------------------------------------------------------------- login

    def _send(self, method: str, path: str, **request: Any) -> Answer:
        """Send one request; a redirect is an answer like any other, so that no other server is sent the token
        or the password.
        """
        if self.closed.is_set():
            # A session opens connections again after it was closed.
            raise WorkflowError(
                f"The client of Airflow at {self.endpoint} is closed; start the gateway again."
            )
        timeout = (self._settings.request_timeout_s, self._settings.request_timeout_s)
        return self._http.request(
            method, self.endpoint + path, timeout=timeout, allow_redirects=False, **request
        )

    def _authorized(self, method: str, path: str, **request: Any) -> Answer:
        """Send a request with our token, and once more with a new one if Airflow no longer accepts it."""
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
        """Log in, unless another thread has replaced *old* already."""
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
            f"Airflow at {self.endpoint} cannot be reached ({_reason(cause)}); see that its api-server runs "
            f"there, or correct {PREFIX}endpoint."
        )

    def _foreign(self, answer: Answer, what: str) -> WorkflowError:
        return WorkflowError(
            f"{self.endpoint} answered {urlsplit(answer.url).path} with {what}; "
            f"see that {PREFIX}endpoint is Airflow's api-server itself."
        )

    def _refused(self, answer: Answer, what: str) -> WorkflowError:
        """Return the error with the way out for the gateway's operator."""
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
            text = f"Airflow at {self.endpoint} does not let in {user}: {detail}. {way_out.format(PREFIX)}."
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
                    " See the log of its api-server; the gateway goes on as soon as Airflow "
                    "serves such calls."
                )
        return AirflowAway(text) if _is_passing(answer) else WorkflowError(text)


def detail_of(answer: Answer) -> str:
    """Return what an answer says is wrong: Airflow's `detail`, which may be an object with a reason,
    else its text.
    """
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text.strip()[:_LONGEST_DETAIL] or answer.reason
    if isinstance(detail, dict):
        return str(detail.get("reason", detail))[:_LONGEST_DETAIL]
    return str(detail)[:_LONGEST_DETAIL].rstrip(".")


def _reason(cause: Exception) -> str:
    """Return what happened, out of what requests and urllib3 wrap it in."""
    inner = cause.args[0] if cause.args and isinstance(cause.args[0], Exception) else cause
    reason = getattr(inner, "reason", None) or inner
    # urllib3 begins its messages with the connection, whose endpoint the error names already.
    return str(reason).partition("): ")[2] or str(reason)


def _is_busy(answer: Answer) -> bool:
    """Whether the database of Airflow had no time for the call, which has changed nothing."""
    return answer.status_code == SERVER_ERROR and detail_of(answer) == DATABASE_ERROR


def _is_passing(answer: Answer) -> bool:
    """Whether the same call can succeed in a moment: it was not refused,
    the server behind it is ill or away.
    """
    return answer.status_code >= SERVER_ERROR


def _session(settings: AirflowSettings) -> requests.Session:
    """Return a session that reads nothing of the environment (proxies, .netrc, certificates)
    and keeps no cookies.
    """
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
