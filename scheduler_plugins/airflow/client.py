"""HTTP to Airflow's public REST API: login, safe repeats, and errors that name the way out."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import httpx

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
# Waits between the tries of a call, in seconds; each call may be repeated, because all of ours are idempotent.
PAUSES_S = (0.2, 0.8)
_GATEWAY_ERRORS = frozenset({502, 503, 504})
_LONGEST_DETAIL = 500

Answer = httpx.Response
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
        self._http = httpx.Client(timeout=settings.request_timeout_s, verify=_tls(settings), trust_env=False)

    def close(self) -> None:
        self.closed.set()
        self._http.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None, *, accept: Collection[int] = (OK,)) -> Answer:
        """Return the answer of GET, whose status is one of *accept*; raises WorkflowError for any other status or no answer."""
        return self.call("GET", path, accept=accept, params=params)

    def call(self, method: str, path: str, *, accept: Collection[int], **request: Any) -> Answer:
        """Do the same for any method, with the arguments *request* of httpx."""
        for pause_s in (*PAUSES_S, None):
            try:
                answer = self._send(method, API + path, **request)
            except httpx.TransportError as cause:
                if pause_s is None or self.closed.is_set():
                    raise self._unreachable(cause) from cause
            except (httpx.HTTPError, RuntimeError) as cause:
                # httpx raises a RuntimeError when another thread has closed its client.
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
        if self._clock.wait_until(self._clock.now() + timedelta(seconds=seconds), self.closed):
            raise WorkflowError(
                "The Airflow scheduler was closed while it waited for Airflow; start the gateway again."
            )

    def read(self, answer: Answer, shape: Callable[[Any], T]) -> T:
        """Return what *shape* makes of an answer's JSON; raises WorkflowError for an answer that is not Airflow's."""
        try:
            body = answer.json()
        except ValueError as cause:
            raise self._foreign(answer, "something else than JSON") from cause
        try:
            return shape(body)
        except (LookupError, TypeError, ValueError, AttributeError) as cause:
            raise self._foreign(answer, f"JSON of another shape ({type(cause).__name__}: {cause})") from cause

    # ----------------------------------------------------------------------------------------------------------- login

    def _send(self, method: str, path: str, **request: Any) -> Answer:
        """Send a request with our token, and once more with a new one if Airflow no longer accepts it."""
        token = self._token or self._new_token("")
        for is_last in (False, True):
            headers = {"Authorization": f"Bearer {token}"}
            answer = self._http.request(method, self.endpoint + path, headers=headers, **request)
            is_invalid = answer.status_code == FORBIDDEN and detail_of(answer) == INVALID_TOKEN
            if is_last or not (is_invalid or answer.status_code == UNAUTHORIZED) or not self._settings.user_name:
                break
            token = self._new_token(token)
        return answer

    def _new_token(self, old: str) -> str:
        """Log in, unless another thread has replaced *old* already."""
        with self._login:
            if self._token == old:
                credentials = {"username": self._settings.user_name, "password": self._settings.password}
                answer = self._http.post(f"{self.endpoint}/auth/token", json=credentials)
                if _is_passing(answer):
                    message = f"the login was answered {answer.status_code}"
                    raise httpx.TransportError(message, request=answer.request)
                if answer.status_code != CREATED:
                    raise self._refused(answer, "POST /auth/token")
                self._token = self.read(answer, lambda body: str(body["access_token"]))
            return self._token

    # ---------------------------------------------------------------------------------------------------------- errors

    def _unreachable(self, cause: Exception) -> WorkflowError:
        kind = AirflowAway if isinstance(cause, httpx.TransportError) else WorkflowError
        return kind(
            f"Airflow at {self.endpoint} cannot be reached ({type(cause).__name__}: {cause}); see that its api-server runs "
            f"there, or correct {PREFIX}endpoint."
        )

    def _foreign(self, answer: Answer, what: str) -> WorkflowError:
        return WorkflowError(
            f"{self.endpoint} answered {answer.request.url.path} with {what}; see that {PREFIX}endpoint is Airflow's "
            "api-server itself."
        )

    def _refused(self, answer: Answer, what: str) -> WorkflowError:
        """Return the error with the way out for the gateway's operator."""
        user = f"user {self._settings.user_name!r}" if self._settings.user_name else f"the token in {PREFIX}token"
        detail = detail_of(answer)
        if answer.status_code == UNAUTHORIZED or detail == INVALID_TOKEN:
            way_out = (
                "Correct {0}user-name and {0}password" if self._settings.user_name else "Get a new one for {0}token"
            )
            text = f"Airflow at {self.endpoint} does not let in {user}: {detail}. {way_out.format(PREFIX)}."
        elif answer.status_code == FORBIDDEN:
            text = f"Airflow at {self.endpoint} lacks rights for {user}: {what} is forbidden ({detail}); give it the role Op."
        else:
            text = f"Airflow at {self.endpoint} answered {what} with {answer.status_code}: {detail}."
            if _is_passing(answer):
                text += " See the log of its api-server; the gateway goes on as soon as Airflow serves such calls."
        return AirflowAway(text) if _is_passing(answer) else WorkflowError(text)


def detail_of(answer: Answer) -> str:
    """Return what an answer says is wrong: Airflow's `detail`, which may be an object with a reason, else its text."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text.strip()[:_LONGEST_DETAIL] or answer.reason_phrase
    if isinstance(detail, dict):
        return str(detail.get("reason", detail))[:_LONGEST_DETAIL]
    return str(detail)[:_LONGEST_DETAIL].rstrip(".")


def _is_busy(answer: Answer) -> bool:
    """Whether the answer says that Airflow's database, or what is before Airflow, could not serve the call."""
    busy = answer.status_code == SERVER_ERROR and detail_of(answer) == DATABASE_ERROR
    return busy or answer.status_code in _GATEWAY_ERRORS


def _is_passing(answer: Answer) -> bool:
    """Whether the same call can succeed in a moment: Airflow did not refuse it, but failed at it."""
    return answer.status_code >= SERVER_ERROR


def _tls(settings: AirflowSettings) -> ssl.SSLContext | bool:
    if not settings.ca_file:
        # Plain HTTP does not need the usual certificates, which take a while to read.
        return settings.endpoint.startswith("https:")
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as cause:
        raise WorkflowError(f"{PREFIX}ca-file: {settings.ca_file} cannot be used: {cause}.") from cause
