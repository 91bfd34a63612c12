"""Files of compiled plans: those of this machine, and the fake that stands for them."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import pytest

from mt_core.errors import EngineError, Unsupported
from mt_core.plans.errors import PlanExists, PlanInvalid, PlanNotFound
from mt_core.sessions.ports import PlanFiles
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.storage.plan_files import StoredPlans
from tests.support.fake_plans import FakePlans


@pytest.fixture
def stored(tmp_path: Path) -> StoredPlans:
    # Its Spark never starts: these URIs need none.
    settings = DriverSettings(catalog_url="jdbc:sqlite:file:/none", warehouse="", jars_dir=tmp_path, log_dir=tmp_path)
    return StoredPlans(SparkDriver(settings), tmp_path / "sessions")


@pytest.fixture(params=["stored", "fake"])
def files(request: pytest.FixtureRequest, stored: StoredPlans) -> PlanFiles:
    return stored if request.param == "stored" else FakePlans()


@pytest.fixture(params=["plan.json", "deep/er/plan.json", "{}/a b.json", "file://{}/a%20b.json"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def test_what_is_written_is_read(files: PlanFiles, uri: str) -> None:
    before = files.exists("s", uri)
    files.write("s", uri, "Plän", replace=False)

    assert (before, files.exists("s", uri), files.read("s", uri)) == (False, True, "Plän")


def test_a_file_is_replaced_only_if_that_is_asked_for(files: PlanFiles, uri: str) -> None:
    files.write("s", uri, "first", replace=False)

    with pytest.raises(PlanExists, match="force-recompile"):
        files.write("s", uri, "second", replace=False)

    kept = files.read("s", uri)
    files.write("s", uri, "third", replace=True)
    assert (kept, files.read("s", uri)) == ("first", "third")


def test_a_file_that_is_not_there_is_named(files: PlanFiles, uri: str) -> None:
    with pytest.raises(PlanNotFound) as refused:
        files.read("s", uri)

    assert str(refused.value).startswith(f"There is no plan {uri}")


def test_a_relative_path_is_one_of_its_session_alone(files: PlanFiles) -> None:
    files.write("mine", "plan.json", "text", replace=False)

    assert not files.exists("other", "plan.json")


def test_the_files_of_a_session_end_with_it_and_all_with_the_next_process(stored: StoredPlans, tmp_path: Path) -> None:
    for session in ("mine", "other"):
        stored.write(session, "plan.json", "text", replace=False)

    stored.close_session("mine")
    left = [stored.exists(session, "plan.json") for session in ("mine", "other")]
    stored.begin()

    assert (left, (tmp_path / "sessions").exists()) == ([False, True], False)


def test_no_part_of_a_file_is_left_when_it_cannot_be_written(stored: StoredPlans, tmp_path: Path) -> None:
    (tmp_path / "plan.json").mkdir()

    with pytest.raises(EngineError, match=r"Plan .*/plan\.json cannot be read or written: Is a directory\."):
        stored.write("s", str(tmp_path / "plan.json"), "text", replace=True)

    assert list(tmp_path.iterdir()) == [tmp_path / "plan.json"]


def test_of_two_writers_at_a_time_one_is_refused(stored: StoredPlans) -> None:
    both, refusals = threading.Barrier(2), list[PlanExists]()

    def write() -> None:
        both.wait()
        try:
            stored.write("s", "plan.json", "text", replace=False)
        except PlanExists as error:
            refusals.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refusals) == 1


def test_a_file_of_another_machine_is_refused(stored: StoredPlans) -> None:
    with pytest.raises(Unsupported, match="file://elsewhere names another machine"):
        stored.read("s", "file://elsewhere/plan.json")


def test_a_file_that_is_no_text_is_refused(stored: StoredPlans, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe")

    with pytest.raises(PlanInvalid, match="the file is no text in UTF-8"):
        stored.read("s", str(tmp_path / "plan.json"))


class _Bucket(BaseHTTPRequestHandler):
    """Objects by path, as S3 stores them: what HEAD and GET need, and an upload of one part, which is there at its end."""

    objects: dict[str, bytes]
    part: bytes

    def do_PUT(self) -> None:
        body = self._chunks(self.rfile) if self.headers["transfer-encoding"] else self._rest()
        if "aws-chunked" in (self.headers["content-encoding"] or ""):
            body = self._chunks(io.BytesIO(body))
        type(self).part = body
        self._answer(200, b"")

    def _rest(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"] or 0))

    @staticmethod
    def _chunks(stream: IO[bytes]) -> bytes:
        """Return what is in chunks, each with its size in hex before it, perhaps with a signature."""
        body = b""
        while size := int(stream.readline().partition(b";")[0], 16):
            body += stream.read(size)
            stream.readline()
        while stream.readline().strip():
            pass
        return body

    def do_POST(self) -> None:
        self._rest()
        if self.path.endswith("?uploads"):
            self._answer(200, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
            return
        self.objects[self.path.partition("?")[0]] = self.part
        self._answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        found = self.objects.get(self.path.partition("?")[0])
        if "list-type" in self.path:
            self._answer(200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
        elif found is None:
            self._answer(404, b"")
        else:
            self._answer(200, found)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("etag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    class Handler(_Bucket):
        objects: dict[str, bytes] = {}  # noqa: RUF012 - one for each test

    for key, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(key, value)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"bucket/plan.json?scheme=http&endpoint_override=127.0.0.1:{server.server_port}&region=eu-central-1"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_plan_in_s3_is_written_as_a_whole_and_read(stored: StoredPlans, bucket: str, scheme: str) -> None:
    uri = f"{scheme}://{bucket}"
    before = stored.exists("s", uri)

    stored.write("s", uri, "Plän", replace=False)

    assert (before, stored.read("s", uri)) == (False, "Plän")
    with pytest.raises(PlanExists):
        stored.write("s", uri, "other", replace=False)
