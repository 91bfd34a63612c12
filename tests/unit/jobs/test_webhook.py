from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mt_core.base.secrets import Secret
from mt_core.errors import MtError, RequestInvalid
from mt_core.jobs.hooks import JobStatusHook
from mt_core.jobs.webhook import Webhook
from mt_core.model.job import Job, JobStatus
from mt_core.testing.job_hook_contract import JobHookContract
from tests.support.registry_facts import HOUR, NOON, a_job

KEY = "hidden-1"


class Receiver:
    """A real HTTP server, which records what is posted to it and answers `status`."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, str, bytes]] = []
        self.status, self.location = 204, ""
        self.silent = threading.Event()
        self.silent.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append((self.path, self.headers["Freshtable-Signature"], body))
                receiver.silent.wait(10)
                self.send_response(receiver.status)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jobs"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.silent.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def webhook(*allowed: str, timeout_s: float = 10) -> Webhook:
    return Webhook(allowed, Secret(KEY), timeout_s=timeout_s)


class TestWebhook(JobHookContract):
    @pytest.fixture
    def hook(self, receiver: Receiver) -> JobStatusHook:
        self.receiver = receiver
        return webhook(receiver.url)

    @pytest.fixture
    def properties(self, receiver: Receiver) -> dict[str, str]:
        return {"job.hooks.webhook.url": receiver.url}

    def effects(self) -> object:
        return set(self.receiver.posts)


def test_each_event_is_posted_with_a_signature_of_the_body(receiver: Receiver) -> None:
    hook, body = webhook(receiver.url), {"url": f"{receiver.url}/a?b=c"}
    job = a_job(target="t", session="s", user="u")
    failed = job.advance(JobStatus.FAILED, error="no rows", finished_at=NOON + HOUR)

    hook.on_created(job, body)
    hook.on_failed(failed, body, "no rows")

    [created, ended] = [json.loads(content) for _path, _signature, content in receiver.posts]
    assert (created["event"], created["job"]["status"], created["job"]["endTime"]) == (
        "CREATED",
        "RUNNING",
        None,
    )
    assert ended == {
        "version": 1,
        "event": "FAILED",
        "job": {
            "id": "a", "kind": "INSERT", "name": "insert-t", "status": "FAILED", "session": "s", "user": "u",
            "target": "t", "affectedRows": None, "error": "no rows", "startTime": "2026-03-01T12:00:00.000Z",
            "endTime": "2026-03-01T13:00:00.000Z",
        },
    }  # fmt: skip
    for path, signature, content in receiver.posts:
        assert path == "/jobs/a?b=c"
        assert signature == f"sha256={hmac.new(KEY.encode(), content, hashlib.sha256).hexdigest()}"


@pytest.mark.parametrize("status", [302, 404, 503])
def test_a_status_other_than_success_is_a_failure_and_a_redirect_is_not_followed(
    receiver: Receiver, status: int
) -> None:
    receiver.status, receiver.location = status, receiver.url

    with pytest.raises(MtError, match=f"127.0.0.1 answered the event CREATED with status {status}"):
        webhook(receiver.url).on_created(a_job(), {"url": receiver.url})

    assert len(receiver.posts) == 1


def test_a_receiver_that_does_not_answer_in_time_is_a_failure(receiver: Receiver) -> None:
    receiver.silent.clear()

    with pytest.raises(MtError, match=r"127\.0\.0\.1 did not accept the event CANCELED: ReadTimeout"):
        webhook(receiver.url, timeout_s=0.2).on_canceled(_canceled(), {"url": receiver.url})


def test_a_receiver_that_is_not_there_is_a_failure(receiver: Receiver) -> None:
    receiver.close()

    with pytest.raises(MtError, match="did not accept the event CANCELED: Connect"):
        webhook(receiver.url).on_canceled(_canceled(), {"url": receiver.url})


@pytest.mark.parametrize(
    "url",
    [
        "https://h.example/jobs", "https://h.example:443/jobs/a?b", "https://H.example/jobs/",
        "http://g.example:81", "http://g.example:81/x",
    ],
)  # fmt: skip
def test_a_url_at_or_below_an_allowed_one_is_accepted(url: str) -> None:
    hook = webhook("https://h.example/jobs", "http://g.example:81/")

    assert hook.body_of({"job.hooks.webhook.url": url}) == {"url": url}


@pytest.mark.parametrize(
    "url",
    [
        "", "https://h.example/jobsx", "https://h.example", "http://h.example/jobs",
        "https://h.example:8443/jobs", "https://h.example.evil/jobs", "https://u:p@h.example/jobs",
        "https://h.example@evil/jobs", "h.example/jobs", "https://h.example/jobs/../admin",
        "https://h.example/jobs/%2e%2e/admin", "https://h.example/jobs/..%2fadmin",
        "https://h.example/jobs\\..\\admin", "file:///etc/passwd", "https://h.example:x/jobs",
        " https://h.example/jobs",
    ],
)  # fmt: skip
def test_any_other_url_is_refused_and_nothing_is_posted(url: str) -> None:
    hook = webhook("https://h.example/jobs")

    with pytest.raises(RequestInvalid):
        hook.body_of({"job.hooks.webhook.url": url})
    with pytest.raises(RequestInvalid):
        hook.on_created(a_job(), {"url": url})


@pytest.mark.parametrize("hook", [webhook(), Webhook(["https://h.example"], Secret(""))])
def test_the_webhook_is_off_without_allowed_urls_and_without_a_secret(hook: Webhook) -> None:
    with pytest.raises(RequestInvalid, match="The hook webhook is off"):
        hook.body_of({"job.hooks.webhook.url": "https://h.example"})


def _canceled() -> Job:
    return replace(a_job(), status=JobStatus.CANCELED, finished_at=NOON)
