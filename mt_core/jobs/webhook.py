"""The webhook: a job status hook that posts signed events to a URL, if the gateway allows that URL."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import SplitResult, unquote, urlsplit

import httpx

from mt_core.base.secrets import Secret
from mt_core.errors import MtError, RequestInvalid
from mt_core.jobs.hooks import Body, JobStatusHook
from mt_core.model.job import Job, JobEvent

URL_KEY = "job.hooks.webhook.url"
ALLOWED_KEY = "job.hooks.webhook.allowed-urls"
SECRET_KEY = "job.hooks.webhook.secret"
SIGNATURE = "Freshtable-Signature"
TIMEOUT_S = 10.0
_PORTS = {"http": 80, "https": 443}


class Webhook(JobStatusHook):
    """Posts events to the URL in the session's properties, which must be at or below one of *allowed*.

    The header `Freshtable-Signature` contains the HMAC-SHA256 of the body, with *secret* as the key.
    """

    identifier: ClassVar[str] = "webhook"
    retries: ClassVar[int | None] = 10

    def __init__(self, allowed: Sequence[str], secret: Secret, *, timeout_s: float = TIMEOUT_S) -> None:
        self._allowed = tuple(map(urlsplit, allowed))
        self._secret, self._timeout_s = secret, timeout_s

    def body_of(self, properties: Mapping[str, str]) -> Body:
        url = properties.get(URL_KEY, "")
        self._check(url)
        return {"url": url}

    def on_created(self, job: Job, body: Body) -> None:
        self._post(JobEvent.CREATED, job, body)

    def on_finished(self, job: Job, body: Body) -> None:
        self._post(JobEvent.FINISHED, job, body)

    def on_failed(self, job: Job, body: Body, error: str) -> None:
        self._post(JobEvent.FAILED, job, body)

    def on_canceled(self, job: Job, body: Body) -> None:
        self._post(JobEvent.CANCELED, job, body)

    def _check(self, url: str) -> None:
        """Raise RequestInvalid unless the gateway allows posting to *url*."""
        if not self._allowed or not self._secret:
            raise RequestInvalid(
                f"The hook webhook is off; the gateway needs the settings {ALLOWED_KEY} and {SECRET_KEY}.",
                key=URL_KEY,
            )
        if not url:
            raise RequestInvalid(f"The hook webhook needs a URL; SET '{URL_KEY}' = 'https://…'.", key=URL_KEY)
        if not any(_is_within(url, each) for each in self._allowed):
            raise RequestInvalid(
                f"{URL_KEY} is not a URL that this gateway may post to; "
                f"its setting {ALLOWED_KEY} lists the allowed URLs.",
                key=URL_KEY,
            )

    def _post(self, event: JobEvent, job: Job, body: Body) -> None:
        url = str(body["url"])
        # The allowed URLs may have changed since the job was created.
        self._check(url)
        content = json.dumps(_message(event, job), sort_keys=True).encode()
        digest = hmac.new(self._secret.reveal().encode(), content, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", SIGNATURE: f"sha256={digest}"}
        try:
            answer = httpx.post(
                url,
                content=content,
                headers=headers,
                timeout=self._timeout_s,
                follow_redirects=False,
                trust_env=False,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as cause:
            raise MtError(
                f"{urlsplit(url).hostname} did not accept the event {event}: {type(cause).__name__}."
            ) from cause
        if not answer.is_success:
            raise MtError(
                f"{urlsplit(url).hostname} answered the event {event} with status {answer.status_code}."
            )


def _is_within(url: str, allowed: SplitResult) -> bool:
    """Return whether *url* has the scheme, host and port of *allowed*, and the same path or one below it."""
    try:
        parts, ports = (
            urlsplit(url),
            [each.port or _PORTS.get(each.scheme) for each in (urlsplit(url), allowed)],
        )
    except ValueError:
        return False
    steps = unquote(parts.path).replace("\\", "/").split("/")
    if parts.scheme not in _PORTS or "@" in parts.netloc or ".." in steps or url != url.strip():
        return False
    same_server = (parts.scheme, parts.hostname) == (allowed.scheme, allowed.hostname) and ports[0] == ports[
        1
    ]
    return same_server and f"{parts.path}/".startswith(f"{allowed.path.rstrip('/')}/")


def _message(event: JobEvent, job: Job) -> dict[str, Any]:
    return {
        "version": 1,
        "event": event.value,
        "job": {
            "id": job.job_id,
            "kind": job.kind,
            "name": job.name,
            "status": job.status.value,
            "session": job.session,
            "user": job.user,
            "target": job.target,
            "affectedRows": job.rows_written,
            "error": job.error,
            "startTime": _text(job.started_at),
            "endTime": _text(job.finished_at),
        },
    }


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
