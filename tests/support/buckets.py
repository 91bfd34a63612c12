"""Local object stores that respond as S3 and Google Cloud Storage do.

They support clients that read and write whole objects.
"""

from __future__ import annotations

import io
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, ClassVar, Self
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@pytest.fixture
def object_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set credentials in the environment, as for a gateway."""
    for key, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(key, value)


class _Bucket:
    """A bucket that exists within a `with` statement. `objects` maps names to contents."""

    handler: ClassVar[type[_Requests]]

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (self.handler,), {"objects": self.objects})
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Requests(BaseHTTPRequestHandler):
    objects: ClassVar[dict[str, bytes]]

    def body(self) -> bytes:
        body = self._chunks(self.rfile) if self.headers["transfer-encoding"] else self._rest()
        return (
            self._chunks(io.BytesIO(body))
            if "aws-chunked" in (self.headers["content-encoding"] or "")
            else body
        )

    def _rest(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"] or 0))

    @staticmethod
    def _chunks(stream: IO[bytes] | io.BufferedIOBase) -> bytes:
        """Return the body of a chunked encoding, in which each chunk follows its size in hex.

        The size may be followed by a signature.
        """
        body = b""
        while size := int(stream.readline().partition(b";")[0], 16):
            body += stream.read(size)
            stream.readline()
        while stream.readline().strip():
            pass
        return body

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), "etag": '"1"', **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_object(self, name: str) -> None:
        found, wanted = self.objects.get(name), _RANGE.fullmatch(self.headers["range"] or "")
        if found is None:
            self.answer(404)
        elif wanted is None:
            self.answer(200, found)
        else:
            first, last = int(wanted[1]), int(wanted[2] or len(found) - 1)
            part = found[first : last + 1]
            self.answer(206, part, **{"content-range": f"bytes {first}-{first + len(part) - 1}/{len(found)}"})

    def log_message(self, format: str, *args: object) -> None: ...


class _S3Requests(_Requests):
    """HEAD, GET, and a multipart upload of a single part, which becomes visible at its end."""

    part: ClassVar[bytes]

    @property
    def name(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/bucket/")

    def do_PUT(self) -> None:
        type(self).part = self.body()
        self.answer(200)

    def do_POST(self) -> None:
        self.body()
        if self.path.endswith("?uploads"):
            self.answer(
                200, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            )
            return
        self.objects[self.name] = self.part
        self.answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self.answer(200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
        else:
            self.answer_object(self.name)


class _GcsRequests(_Requests):
    """Metadata and content of an object, and a resumable upload, which becomes visible at its end."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        name = unquote(url.path.rpartition("/o/")[2])
        if url.path.endswith("/o"):
            self.answer(200, json.dumps({"kind": "storage#objects", "items": []}).encode())
        elif parse_qs(url.query).get("alt") == ["media"]:
            self.answer_object(name)
        elif name in self.objects:
            self.answer(200, self._facts(name))
        else:
            self.answer(404)

    def do_POST(self) -> None:
        self.body()
        [name] = parse_qs(urlsplit(self.path).query)["name"]
        self.answer(200, location=f"http://{self.headers['host']}/resumable/{name}")

    def do_PUT(self) -> None:
        name = urlsplit(self.path).path.removeprefix("/resumable/")
        self.objects[name] = self.body()
        self.answer(200, self._facts(name))

    def _facts(self, name: str) -> bytes:
        facts = {
            "kind": "storage#object",
            "name": name,
            "bucket": "bucket",
            "generation": "1",
            "size": str(len(self.objects[name])),
            "updated": "2026-01-01T00:00:00Z",
            "timeCreated": "2026-01-01T00:00:00Z",
        }
        return json.dumps(facts).encode()


class S3(_Bucket):
    """An S3 bucket."""

    handler = _S3Requests

    def uri(self, name: str) -> str:
        return f"s3://bucket/{name}?scheme=http&endpoint_override={self.address}&region=eu-central-1"


class Gcs(_Bucket):
    """A Google Cloud Storage bucket, which requires no credentials."""

    handler = _GcsRequests

    def uri(self, name: str) -> str:
        return (
            f"gs://anonymous@bucket/{name}?scheme=http&endpoint_override={self.address}&retry_limit_seconds=5"
        )


BUCKETS = (S3, Gcs)
