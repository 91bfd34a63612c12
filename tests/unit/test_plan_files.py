"""Files of compiled plans: those of this machine, and the fake that stands for them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mt_core.errors import DefinitionInvalid, EngineError, Unsupported
from mt_core.plans.errors import PlanExists, PlanInvalid, PlanNotFound
from mt_core.sessions.ports import PlanFiles
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.files.plan_files import StoredPlans
from mt_core.spark.files.remote_files import limited
from tests.support.buckets import BUCKETS, S3, Gcs
from tests.support.buckets import object_stores as object_stores
from tests.support.fake_plans import FakePlans


@pytest.fixture
def stored(tmp_path: Path) -> StoredPlans:
    # Its Spark never starts: these URIs need none.
    settings = DriverSettings(
        catalog_url="jdbc:sqlite:file:/none", warehouse="", jars_dir=tmp_path, log_dir=tmp_path
    )
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


@pytest.mark.parametrize(
    "uri",
    [
        "../evil.json",
        "../other/plan.json",
        "a/../../evil.json",
        "..",
        "file:../evil.json",
        "file:%2e%2e/evil.json",
    ],
)
def test_a_relative_path_that_leaves_the_folder_of_its_session_is_refused(
    files: PlanFiles, uri: str, tmp_path: Path
) -> None:
    for attempt in (
        lambda: files.exists("s", uri),
        lambda: files.read("s", uri),
        lambda: files.write("s", uri, "text", replace=True),
    ):
        with pytest.raises(DefinitionInvalid, match="name a file in it, or give an absolute path"):
            attempt()

    assert not [*tmp_path.rglob("*.json")]


def test_a_relative_path_may_go_up_and_down_in_the_folder_of_its_session(files: PlanFiles) -> None:
    files.write("s", "a/../plan.json", "text", replace=False)

    assert files.read("s", "plan.json") == "text"


def test_a_path_with_a_nul_character_is_refused(stored: StoredPlans) -> None:
    for uri in ("a\0b", "/a\0b", "file:///a%00b"):
        with pytest.raises(DefinitionInvalid, match="the character NUL"):
            stored.read("s", uri)


def test_a_link_out_of_the_folder_of_a_session_is_not_followed(stored: StoredPlans, tmp_path: Path) -> None:
    (tmp_path / "sessions" / "s").mkdir(parents=True)
    (tmp_path / "sessions" / "s" / "out").symlink_to(tmp_path)

    with pytest.raises(DefinitionInvalid, match="leaves the folder of the session"):
        stored.write("s", "out/evil.json", "text", replace=True)


def test_the_files_of_a_session_end_with_it_and_all_with_the_next_process(
    stored: StoredPlans, tmp_path: Path
) -> None:
    for session in ("mine", "other"):
        stored.write(session, "plan.json", "text", replace=False)

    stored.close_session("mine")
    left = [stored.exists(session, "plan.json") for session in ("mine", "other")]
    stored.begin()

    assert (left, (tmp_path / "sessions").exists()) == ([False, True], False)


def test_no_part_of_a_file_is_left_when_it_cannot_be_written(stored: StoredPlans, tmp_path: Path) -> None:
    name = f"{'x' * 230}.json"

    with pytest.raises(
        EngineError, match=r"Plan .*/x+\.json cannot be read or written: File name too long\."
    ):
        stored.write("s", str(tmp_path / name), "text", replace=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "uri", ["{}", "file://{}", "{}/new/", "s3://bucket/plans/", "gs://bucket", "hdfs://host/", "."]
)
def test_a_folder_is_no_plan(stored: StoredPlans, tmp_path: Path, uri: str) -> None:
    stored.write("s", "plan.json", "text", replace=False)
    before = sorted(tmp_path.rglob("*"))
    uri = uri.format(tmp_path)

    for work in (
        lambda: stored.exists("s", uri),
        lambda: stored.read("s", uri),
        lambda: stored.write("s", uri, "text", replace=True),
    ):
        with pytest.raises(
            DefinitionInvalid, match=r"Plan .* is a folder; name a file in it, such as .*plan\.json"
        ):
            work()

    assert sorted(tmp_path.rglob("*")) == before


def test_a_device_is_not_replaced_by_a_plan(stored: StoredPlans, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    for replaces in (False, True):
        with pytest.raises(DefinitionInvalid, match=r"Plan .*/pipe is a device or another special file"):
            stored.write("s", str(pipe), "text", replace=replaces)

    assert pipe.is_fifo()


def test_a_name_that_no_file_can_have_is_refused(stored: StoredPlans, tmp_path: Path) -> None:
    uri = f"{tmp_path}/{'x' * 300}.json"

    for work in (lambda: stored.exists("s", uri), lambda: stored.write("s", uri, "text", replace=False)):
        with pytest.raises(EngineError, match=r"Plan .* cannot be read or written: File name too long\."):
            work()


def test_a_plan_below_a_file_is_refused_with_the_file(stored: StoredPlans, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(EngineError, match=r"cannot be read or written: .*/file is not a folder\."):
        stored.write("s", f"{tmp_path}/file/plan.json", "text", replace=False)


def test_google_is_asked_for_half_a_minute_unless_the_uri_says_for_how_long() -> None:
    assert [
        limited(uri)
        for uri in ("gs://a/b", "gs://a/b?scheme=http", "gs://a/b?retry_limit_seconds=5", "s3://a/b")
    ] == [
        "gs://a/b?retry_limit_seconds=30",
        "gs://a/b?scheme=http&retry_limit_seconds=30",
        "gs://a/b?retry_limit_seconds=5",
        "s3://a/b",
    ]


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
    with pytest.raises(Unsupported, match="file://elsewhere is on another machine"):
        stored.read("s", "file://elsewhere/plan.json")


def test_a_file_that_is_no_text_is_refused(stored: StoredPlans, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe")

    with pytest.raises(PlanInvalid, match="the file is not UTF-8 text"):
        stored.read("s", str(tmp_path / "plan.json"))


@pytest.mark.parametrize("bucket", BUCKETS, ids=lambda bucket: bucket.__name__)
@pytest.mark.usefixtures("object_stores")
def test_a_plan_in_an_object_store_is_written_as_a_whole_and_read(
    stored: StoredPlans, tmp_path: Path, bucket: type[S3] | type[Gcs]
) -> None:
    with bucket() as store:
        uri = store.uri("plan.json")
        before = stored.exists("s", uri)

        stored.write("s", uri, "Plän", replace=False)

        assert (before, stored.read("s", uri)) == (False, "Plän")
        with pytest.raises(PlanExists):
            stored.write("s", uri, "other", replace=False)
        assert store.objects == {"plan.json": "Plän".encode()}
    assert [file.read_text(encoding="utf-8") for file in (tmp_path / "sessions").rglob("*.json")] == ["Plän"]
    stored.close_session("s")
    assert list((tmp_path / "sessions").iterdir()) == []


def test_an_object_without_a_bucket_is_refused_with_its_uri(stored: StoredPlans) -> None:
    with pytest.raises(
        EngineError, match=r"Plan s3:bucket/plan\.json cannot be read or written: Missing bucket name"
    ):
        stored.read("s", "s3:bucket/plan.json")


@pytest.mark.usefixtures("object_stores")
def test_an_object_is_read_anew_each_time(stored: StoredPlans) -> None:
    with S3() as store:
        uri = store.uri("plan.json")
        store.objects["plan.json"] = b"first"
        first = stored.read("s", uri)
        store.objects["plan.json"] = b"second"

        assert (first, stored.read("s", uri.replace("s3:", "s3a:", 1))) == ("first", "second")


@pytest.mark.usefixtures("object_stores")
def test_an_object_that_is_not_there_is_named_and_leaves_nothing(stored: StoredPlans, tmp_path: Path) -> None:
    with S3() as store, pytest.raises(PlanNotFound, match=r"There is no plan s3://bucket/none\.json"):
        stored.read("s", store.uri("none.json"))

    assert not (tmp_path / "sessions").exists()
