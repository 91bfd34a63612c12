"""The options `workflow-scheduler.airflow.*`: declarations and parsing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mt_core.errors import WorkflowError
from mt_core.workflow.scheduler import SchedulerOption

IDENTIFIER = "airflow"
PREFIX = f"workflow-scheduler.{IDENTIFIER}."

ENDPOINT = SchedulerOption(
    key="endpoint",
    help="URL of Airflow's api-server, such as `https://airflow.example.com`; `http://` may be left out.",
    default=None,
)
WEB_URL = SchedulerOption(
    key="web-url",
    help=(
        "URL at which people open Airflow in a browser, for links to its DAGs; "
        "the endpoint, if it is left out."
    ),
)
USER_NAME = SchedulerOption(
    key="user-name",
    help=(
        "The user as whom the gateway logs in to Airflow; "
        "give it one of its own, so that Airflow distinguishes it from people."
    ),
)
PASSWORD = SchedulerOption(key="password", help="The user's password.", secret=True)
TOKEN = SchedulerOption(
    key="token", help="A JWT of Airflow's to use in place of user and password.", secret=True
)
CA_FILE = SchedulerOption(
    key="ca-file",
    help=(
        "File with the certificates that Airflow's TLS certificate is checked with, "
        "in place of the usual ones."
    ),
)
DAG_ID_PREFIX = SchedulerOption(
    key="dag-id-prefix",
    help="What the ids of our DAGs begin with; the same as `dag_id_prefix` of the bundle in Airflow.",
    default="mt__",
)
REQUEST_TIMEOUT = SchedulerOption(
    key="request-timeout", help="How long one call of Airflow's may take.", default="10 s"
)
OPEN_TIMEOUT = SchedulerOption(
    key="open-timeout",
    help=(
        "How long the gateway waits at its start for an Airflow that runs but is not ready. "
        "One that is away is not waited for."
    ),
    default="30 s",
)
PUBLISH_TIMEOUT = SchedulerOption(
    key="publish-timeout",
    help="How long Airflow may take to show a DAG that was published, changed or removed.",
    default="60 s",
)
FULL_READ_INTERVAL = SchedulerOption(
    key="full-read-interval",
    help=(
        "How often all DAGs are read; those that are paused, and how many there are, "
        "are read every 30 seconds."
    ),
    default="5 min",
)
OPTIONS = (
    ENDPOINT,
    WEB_URL,
    USER_NAME,
    PASSWORD,
    TOKEN,
    CA_FILE,
    DAG_ID_PREFIX,
    REQUEST_TIMEOUT,
    OPEN_TIMEOUT,
    PUBLISH_TIMEOUT,
    FULL_READ_INTERVAL,
)

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"(?P<number>\d{1,9}(\.\d{1,3})?) ?(?P<unit>ms|s|min|h)")
_DAG_ID_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowSettings:
    """The addresses of Airflow for the gateway and for people, the gateway's credentials, and time limits.

    An empty string means that the option is not set.
    """

    endpoint: str
    web_url: str = ""
    user_name: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_file: str = ""
    dag_id_prefix: str = "mt__"
    request_timeout_s: float = 10.0
    open_timeout_s: float = 30.0
    publish_timeout_s: float = 60.0
    full_read_interval_s: float = 300.0


def read_settings(options: Mapping[str, str]) -> AirflowSettings:
    """Parse *options*; raise WorkflowError naming an invalid option."""
    texts = {option.key: options.get(option.key, option.default or "").strip() for option in OPTIONS}
    user, password = texts[USER_NAME.key], options.get(PASSWORD.key, "")
    endpoint, web_url = (_url(texts[option.key]) for option in (ENDPOINT, WEB_URL))
    if not _is_url(endpoint):
        raise _unusable(ENDPOINT, endpoint, "a URL such as http://airflow.example.com:8080")
    if web_url and not _is_url(web_url):
        raise _unusable(WEB_URL, web_url, "a URL such as https://airflow.example.com")
    if not texts[TOKEN.key] and not (user and password):
        raise WorkflowError(
            f"The gateway cannot log in to Airflow at {endpoint}: "
            f"set {PREFIX}{USER_NAME.key} and {PREFIX}{PASSWORD.key}, or {PREFIX}{TOKEN.key}."
        )
    if not (texts[TOKEN.key].isascii() and texts[TOKEN.key].isprintable()):
        raise WorkflowError(
            f"{PREFIX}{TOKEN.key} has characters that no token has; set the token that Airflow gave."
        )
    if not _DAG_ID_PREFIX.fullmatch(texts[DAG_ID_PREFIX.key]):
        raise _unusable(
            DAG_ID_PREFIX, texts[DAG_ID_PREFIX.key], "1 to 60 letters, digits and characters of _.-"
        )
    return AirflowSettings(
        endpoint=endpoint,
        web_url=web_url,
        user_name=user,
        password=password,
        token=texts[TOKEN.key],
        ca_file=texts[CA_FILE.key],
        dag_id_prefix=texts[DAG_ID_PREFIX.key],
        request_timeout_s=_seconds(REQUEST_TIMEOUT, texts),
        open_timeout_s=_seconds(OPEN_TIMEOUT, texts),
        publish_timeout_s=_seconds(PUBLISH_TIMEOUT, texts),
        full_read_interval_s=_seconds(FULL_READ_INTERVAL, texts),
    )


def _url(text: str) -> str:
    """Return *text* with a scheme: in FLIP-448, endpoints are written like `localhost:8085`."""
    return (text if "://" in text or not text else f"http://{text}").rstrip("/")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _seconds(option: SchedulerOption, texts: Mapping[str, str]) -> float:
    time = _TIME.fullmatch(texts[option.key])
    if time is None:
        raise _unusable(option, texts[option.key], "a time such as 500 ms, 10 s or 5 min")
    return float(time["number"]) * _UNITS[time["unit"]]


def _unusable(option: SchedulerOption, text: str, expected: str) -> WorkflowError:
    return WorkflowError(f"{PREFIX}{option.key} is {text!r}; set {expected}.")
