"""The fence of tables in each catalog: commits that arrive late, at once, twice or without an answer.

The writers are those of `mt_core.model.fence`, and each one reads the table by itself. A commit that arrives
late is computed from what its writer read and sent when others have committed. No rows land twice, and none
are lost. Rows are the entries of manifests, whose files do not exist.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import CommitConflict, CommitUnknown
from mt_core.model.fence import Fenced, Mark, RefreshWriter, StreamWriter, carried_out
from mt_core.model.storage import MetadataChange, StorageMetadata
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import active_session, static_member, text_map
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.metadata import ancestors, commit, metadata_of
from tests.depth import DEPTH
from tests.integration.spark_catalog import spark_catalog
from tests.object_store import load_aws
from tests.server_process import ServerProcess
from tests.support.cut_connections import Cut, CutConnections, cut_connections
from tests.support.gateway.own_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

OFTEN = ("rest",)
"""The catalogs that `make test-slow` asks. The others are those of the other tests."""
CATALOGS = ("sqlite", "postgresql", "seaweedfs", *OFTEN)
JOB = "0d9f8a4e111142228333444455556666"
ROWS = "races.rows"
RUN_BRANCH = "run_r1_1"
"""The key of a snapshot's summary that says what its rows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A catalog. A server is reached through *proxy*, which recognizes a commit by the text *request*.

    *process* is None for a server that no test kills. `rebases` says whether a commit lands on a version that
    it was not computed for, if that has the same branches.
    """

    session: SparkSession
    name: str
    catalog: Any
    rebases: bool
    proxy: CutConnections | None = None
    request: bytes = b""
    process: ServerProcess | None = None

    def restart(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.start()
        self.wait()

    def wait(self) -> None:
        """Wait until the catalog answers. SeaweedFS says that it is ready a little earlier."""
        wait_until(self._answers, f"no {self.name}")

    def _answers(self) -> bool:
        try:
            self.catalog.listNamespaces()
            return True
        except SPARK_ERRORS:
            return False


class Target:
    """A table with an empty snapshot."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.session, self.name = lake, lake.session, f"{lake.name}.races.t{uuid4().hex[:12]}"
        self.session.sql(f"CREATE TABLE {self.name} (n INT) USING iceberg")
        self.load().newAppend().commit()

    def load(self) -> Any:
        """Return the table as another process would load it."""
        identifier = static_member(self.session, "org.apache.iceberg.catalog.TableIdentifier.parse")
        return self.lake.catalog.loadTable(identifier(self.name.partition(".")[2]))

    def read(self) -> StorageMetadata:
        return metadata_of(self.session, self.load())

    def send(self, metadata: StorageMetadata, change: MetadataChange | None) -> None:
        assert change is not None
        commit(self.session, self.name, metadata, change)

    def carry_out(self, change: Callable[[StorageMetadata], MetadataChange | None]) -> None:
        """Commit a change, as the writers of the product do."""
        for _ in carried_out(self.name, "change", self.read, change, self.send):
            pass

    def late(self, change: Callable[[StorageMetadata], MetadataChange | None]) -> Callable[[], None]:
        """Return the commit of a change, which is computed now and arrives later."""
        metadata = self.read()
        return partial(self.send, metadata, change(metadata))

    def rows(self, metadata: StorageMetadata, what: str) -> Any:
        """Return a pending snapshot with a file of its own, in which *what* is stored."""
        table = metadata.base.table
        file = static_member(self.session, "org.apache.iceberg.DataFiles.builder")(table.spec())
        path = f"{table.location()}/data/{uuid4()}.parquet"
        file = file.withPath(path).withFileSizeInBytes(1).withRecordCount(1).build()
        catalog, namespace, table_name = self.name.split(".")
        name = TableIdentifier(catalog, (namespace,), table_name)
        commit = HeldCommit.on(self.session, name, metadata, metadata.main, {ROWS: what})
        commit.make(commit.table.newFastAppend().appendFile(file))
        return commit.pending

    def published(self) -> list[str]:
        """Return what is stored in main, oldest first."""
        metadata = self.read()
        snapshots = [
            text_map(self.session, metadata.base.snapshot(each.snapshot_id).summary())
            for each in ancestors(self.session, metadata)
        ]
        return [facts[ROWS] for facts in reversed(snapshots) if ROWS in facts]

    @property
    def mark(self) -> Mark[str]:
        return refresh(0).mark_of(self.read().properties)

    # --------------------------------------------------------------------------------------------- writers

    def publish(self, claim: int, run: str) -> Callable[[StorageMetadata], MetadataChange | None]:
        """Return the change that publishes *run* unless the table has it."""
        writer = refresh(claim)

        def change(metadata: StorageMetadata) -> MetadataChange | None:
            if writer.mark_of(metadata.properties).published == run:
                return None
            writer.refuse_earlier(metadata)
            snapshot = self.rows(metadata, run)
            return writer.publish(metadata, run, str(snapshot.snapshotId()), pending=snapshot)

        return change

    def batch(self, writer: StreamWriter, number: int) -> Callable[[StorageMetadata], MetadataChange | None]:
        """Return the change that publishes a batch of a stream unless the table has it."""

        def change(metadata: StorageMetadata) -> MetadataChange | None:
            last = writer.mark_of(metadata.properties).published
            if last is not None and last >= number:
                return None
            writer.check_open(metadata)
            snapshot = self.rows(metadata, f"{writer.job_id}/{number}")
            return writer.publish(metadata, number, str(snapshot.snapshotId()), pending=snapshot)

        return change

    def begin(self, writer: StreamWriter) -> None:
        def begun(metadata: StorageMetadata) -> MetadataChange | None:
            return None if writer.is_begun(metadata) else writer.begin(str(metadata.main))

        self.carry_out(begun)

    def open(self, writer: StreamWriter) -> None:
        self.begin(writer)
        self.carry_out(writer.open)


def refresh(claim: int) -> RefreshWriter:
    return RefreshWriter(number=claim)


def stream(attempt: int, job_id: str = JOB) -> StreamWriter:
    return StreamWriter(job_id=job_id, number=attempt)


# ------------------------------------------------------------------------------------------------- catalogs


@pytest.fixture(scope="module")
def session(module_driver: SparkDriver) -> SparkSession:
    return module_driver.new_session()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            name,
            marks=() if DEPTH > 1 or name in OFTEN else pytest.mark.skip(reason="only in make test-deep"),
        )
        for name in CATALOGS
    ],
)
def lake(
    request: pytest.FixtureRequest, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """Each of the catalogs, with the namespace `races`."""
    folder = tmp_path_factory.mktemp("races")
    with ExitStack() as stack:
        make = {"sqlite": _sqlite, "postgresql": _postgresql, "rest": _rest, "seaweedfs": _seaweedfs}
        options, facts = make[request.param](request, session, folder, stack)
        stack.enter_context(active_session(session))
        name = stack.enter_context(spark_catalog(session, options))
        catalog = session._jsparkSession.sessionState().catalogManager().catalog(name).icebergCatalog()
        made = Lake(session=session, name=name, catalog=catalog, **facts)
        made.wait()
        session.sql(f"CREATE NAMESPACE {name}.races")
        yield made


Made = tuple[dict[str, str], dict[str, Any]]


def _sqlite(_request: pytest.FixtureRequest, _session: SparkSession, folder: Path, _stack: ExitStack) -> Made:
    return _jdbc(f"jdbc:sqlite:file:{folder}/catalog.db?busy_timeout=30000", folder), {"rebases": False}


def _postgresql(
    request: pytest.FixtureRequest, _session: SparkSession, folder: Path, stack: ExitStack
) -> Made:
    url = urlsplit(request.getfixturevalue("postgres_url"))
    proxy = stack.enter_context(cut_connections(str(url.hostname), url.port or 5432))
    # A statement that the server has prepared is sent without its text.
    database = f"jdbc:postgresql://127.0.0.1:{proxy.port}{url.path}?user={url.username}&prepareThreshold=0"
    facts = {"rebases": False, "proxy": proxy, "request": b"UPDATE iceberg_tables"}
    return _jdbc(database, folder), facts


def _jdbc(database: str, folder: Path) -> dict[str, str]:
    return {"type": "jdbc", "uri": database, "warehouse": str(folder), "jdbc.schema-version": "V1"}


def _rest(request: pytest.FixtureRequest, _session: SparkSession, _folder: Path, stack: ExitStack) -> Made:
    return _served(request.getfixturevalue("rest_server"), stack)


def _seaweedfs(
    request: pytest.FixtureRequest, session: SparkSession, _folder: Path, stack: ExitStack
) -> Made:
    store = request.getfixturevalue("object_store")
    load_aws(session)
    return _served(store, stack)


def _served(server: Any, stack: ExitStack) -> Made:
    url = urlsplit(server.rest_uri)
    proxy = stack.enter_context(cut_connections(str(url.hostname), int(url.port or 0)))
    # Iceberg posts its metrics in threads of its own, at any time.
    own = {"uri": f"http://127.0.0.1:{proxy.port}", "rest-metrics-reporting-enabled": "false"}
    options = {**server.rest_options, **own}
    return options, {"rebases": True, "proxy": proxy, "request": b"POST ", "process": server.process}


@pytest.fixture
def table(lake: Lake) -> Target:
    return Target(lake)


# ------------------------------------------------------------------------------------------------ refreshes


def test_a_publish_over_a_moved_main_is_refused_and_lands_once_when_it_is_computed_again(
    table: Target,
) -> None:
    late = table.late(table.publish(1, "r1"))
    table.load().newAppend().set("team", "foreign").commit()

    with pytest.raises(CommitConflict):
        late()
    assert table.published() == []
    table.carry_out(table.publish(1, "r1"))

    assert (table.published(), table.mark) == (["r1"], Mark(number=1, published="r1"))


def test_a_late_publish_that_lands_before_that_of_the_next_attempt_is_found_by_it(table: Target) -> None:
    late, second = table.late(table.publish(1, "r")), table.late(table.publish(2, "r"))

    late()
    with pytest.raises(CommitConflict):
        second()
    table.carry_out(table.publish(2, "r"))

    assert (table.published(), table.mark) == (["r"], Mark(number=1, published="r"))


def test_a_late_publish_does_not_land_after_that_of_the_next_attempt(table: Target) -> None:
    late = table.late(table.publish(1, "r"))
    table.carry_out(table.publish(2, "r"))

    with pytest.raises(CommitConflict):
        late()
    table.carry_out(table.publish(1, "r"))
    with pytest.raises(Fenced):
        table.carry_out(table.publish(1, "another"))

    assert (table.published(), table.mark) == (["r"], Mark(number=2, published="r"))


@pytest.mark.parametrize("end", ["publish", "close"])
def test_a_late_close_does_not_land_after_a_newer_claim_has_moved_main(table: Target, end: str) -> None:
    late = table.late(refresh(4).close)
    table.carry_out(table.publish(5, "r5") if end == "publish" else refresh(5).close)
    before = table.read()

    with pytest.raises(CommitConflict):
        late()

    assert table.read() == before
    assert table.mark == Mark(number=5, published="r5" if end == "publish" else None)


def test_a_late_close_that_lands_first_does_not_lose_the_publish_of_a_newer_claim(table: Target) -> None:
    late, newer = table.late(refresh(4).close), table.late(table.publish(5, "r5"))

    late()
    with pytest.raises(CommitConflict):
        newer()
    table.carry_out(table.publish(5, "r5"))

    assert (table.published(), table.mark) == (["r5"], Mark(number=5, published="r5"))


def test_a_late_publish_does_not_land_after_its_own_close(table: Target) -> None:
    late = table.late(table.publish(1, "r1"))
    table.carry_out(refresh(1).close)

    with pytest.raises(CommitConflict):
        late()

    assert (table.published(), table.mark) == ([], Mark(number=1))


def test_of_publishes_that_arrive_at_once_one_lands(table: Target) -> None:
    for number in range(1, 7):
        commits = [table.late(table.publish(number, f"r{number}/{each}")) for each in range(4)]

        with ThreadPoolExecutor(len(commits)) as pool:
            landed = list(pool.map(_lands, commits))

        assert len(table.published()) == number
        assert landed.count(True) <= 1
        assert table.published()[-1] == table.mark.published


def _lands(send: Callable[[], None]) -> bool:
    """Return whether a commit has landed, as far as its writer knows."""
    try:
        send()
        return True
    except (CommitConflict, CommitUnknown):
        return False


def test_what_the_last_release_staged_is_published_though_somebody_moves_its_branch(
    table: Target,
) -> None:
    writer = refresh(1)
    table.load().newAppend().set(ROWS, "r1").toBranch(RUN_BRANCH).commit()
    staged = table.read().branches[RUN_BRANCH]

    def publish(metadata: StorageMetadata) -> MetadataChange:
        return writer.publish(metadata, "r1", staged)

    late = table.late(publish)
    table.load().newAppend().set("team", "foreign").toBranch(RUN_BRANCH).commit()

    with pytest.raises(CommitConflict):
        late()
    table.carry_out(publish)

    assert (table.read().main, table.read().branches) == (staged, {})


def test_a_late_spark_job_cannot_write_to_a_branch_that_was_dropped(table: Target) -> None:
    table.load().newAppend().toBranch(RUN_BRANCH).commit()
    table.carry_out(refresh(2).close)

    with pytest.raises(SPARK_ERRORS, match="branch"):
        table.session.sql(f"INSERT INTO {table.name}.branch_{RUN_BRANCH} VALUES (1)")

    assert table.read().branches == {}


@pytest.mark.parametrize("what", ["property", "column"])
def test_a_publish_does_not_undo_what_others_change_meanwhile(table: Target, what: str) -> None:
    late = table.late(table.publish(1, "r1"))
    changed = table.load()
    if what == "property":
        changed.updateProperties().set("team", "foreign").commit()
    else:
        integer = static_member(table.session, "org.apache.iceberg.types.Types.IntegerType.get")()
        changed.updateSchema().addColumn("added", integer).commit()

    assert _lands(late) == table.lake.rebases
    table.carry_out(table.publish(1, "r1"))

    metadata = table.read()
    assert table.published() == ["r1"]
    assert "team" in metadata.properties or "added" in metadata.columns


def test_claims_are_in_the_order_of_main_though_all_publish_at_once(table: Target) -> None:
    claims, lock, landed = iter(range(1, 13)), threading.Lock(), list[str]()

    def publish(_thread: int) -> None:
        while True:
            with lock:
                claim = next(claims, None)
            if claim is None:
                return
            try:
                table.carry_out(table.publish(claim, f"{claim:03d}"))
            except Fenced:
                continue
            landed.append(f"{claim:03d}")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(publish, range(3)))

    published = table.published()
    assert published == sorted(published)
    assert sorted(landed) == published
    assert table.mark == Mark(number=int(published[-1]), published=published[-1])


# -------------------------------------------------------------------------------------------------- streams


def test_a_late_batch_does_not_land_after_the_open_of_the_next_attempt(table: Target) -> None:
    table.open(stream(1))
    late = table.late(table.batch(stream(1), 0))
    table.open(stream(2))

    with pytest.raises(CommitConflict):
        late()
    table.carry_out(table.batch(stream(2), 0))

    assert table.published() == [f"{JOB}/0"]


def test_a_late_batch_that_lands_before_the_next_open_is_known_to_the_next_attempt(table: Target) -> None:
    table.open(stream(1))
    late = table.late(table.batch(stream(1), 0))
    late()
    with pytest.raises(CommitConflict):
        late()

    table.open(stream(2))
    table.carry_out(table.batch(stream(2), 0))

    assert table.published() == [f"{JOB}/0"]


@pytest.mark.parametrize("first", [1, 2], ids=["of the first attempt", "of a later attempt"])
def test_a_late_open_does_not_take_back_the_batches_of_a_later_attempt(table: Target, first: int) -> None:
    earlier, later = stream(first), stream(first + 1)
    if first > 1:
        table.open(stream(1))
    table.begin(earlier)
    late = table.late(earlier.open)
    table.open(later)
    table.carry_out(table.batch(later, 0))

    with pytest.raises(CommitConflict):
        late()
    table.carry_out(table.batch(later, 1))

    assert table.published() == [f"{JOB}/0", f"{JOB}/1"]
    assert later.mark_of(table.read().properties) == Mark(number=first + 1, published=1)


def test_a_repeated_open_that_is_late_does_not_take_back_a_batch(table: Target) -> None:
    table.open(stream(1))
    late = table.late(stream(1).open)
    table.carry_out(table.batch(stream(1), 0))

    with pytest.raises(CommitConflict):
        late()

    assert stream(1).mark_of(table.read().properties) == Mark(number=1, published=0)


def test_a_late_open_or_batch_does_not_land_after_a_stop_and_a_late_stop_not_after_an_open(
    table: Target,
) -> None:
    table.open(stream(1))
    late_open, late_batch = table.late(stream(1).open), table.late(table.batch(stream(1), 0))
    late_close = table.late(stream(0).close)
    table.carry_out(stream(0).close)

    for late in (late_open, late_batch):
        with pytest.raises(CommitConflict):
            late()
    assert table.published() == []
    table.open(stream(2))
    with pytest.raises(CommitConflict):
        late_close()
    table.carry_out(table.batch(stream(2), 0))

    assert table.published() == [f"{JOB}/0"]


def test_jobs_and_others_that_write_a_table_at_once_lose_nothing(table: Target) -> None:
    jobs = [stream(1, uuid4().hex) for _ in range(2)]

    def run(writer: StreamWriter) -> None:
        table.open(writer)
        for number in range(4):
            table.carry_out(table.batch(writer, number))

    def others() -> None:
        for number in range(4):
            load = table.load()
            # Iceberg's own commits to main try again while others move it.
            load.updateProperties().set(f"other.{number}", "").commit()

    with ThreadPoolExecutor(3) as pool:
        work = [*(pool.submit(run, each) for each in jobs), pool.submit(others)]
    for each in work:
        each.result()

    expected = {writer.job_id: [str(number) for number in range(4)] for writer in jobs}
    batches = [text.split("/") for text in table.published()]
    assert {job: [number for of, number in batches if of == job] for job in expected} == expected
    assert len(batches) == 8
    properties = table.read().properties
    assert {f"other.{number}" for number in range(4)} <= properties.keys()


# --------------------------------------------------------------------------------------------- lost answers


@pytest.fixture(
    params=[(how, when) for how in ("cut", "kill") for when in ("before", "after")],
    ids=lambda each: "-".join(each),
)
def lose_answers(request: pytest.FixtureRequest, lake: Lake) -> Callable[[str], bool]:
    """Return a function after which the next commit has no answer, whether or not the server has received it.

    Its argument names the commit. It returns False if the commit has an answer: a server, which takes
    seconds to start again, is killed only in some commits.
    """
    how, when = request.param
    proxy = lake.proxy
    if proxy is None or (how == "kill" and lake.process is None):
        pytest.skip("there is no server to kill")

    def lose(step: str) -> bool:
        if how == "kill" and DEPTH == 1 and step != {"before": "batch", "after": "publish"}[when]:
            return False
        then = lake.restart if how == "kill" else (lambda: None)
        proxy.cut = Cut(text=lake.request, after=when == "after", then=then)
        return True

    return lose


def test_a_writer_finds_what_became_of_a_commit_without_an_answer(
    table: Target, lose_answers: Callable[[str], bool]
) -> None:
    proxy, writer, lost = table.lake.proxy, stream(1), list[str]()
    assert proxy is not None

    def commit_without_answer(step: str, change: Callable[[StorageMetadata], MetadataChange | None]) -> None:
        loses = lose_answers(step)
        table.carry_out(change)
        assert proxy.cut is None
        lost.extend([step] if loses else [])

    table.begin(writer)
    commit_without_answer("publish", table.publish(1, "r1"))
    commit_without_answer("close", refresh(2).close)
    commit_without_answer("open", writer.open)
    commit_without_answer("batch", table.batch(writer, 0))
    table.carry_out(table.publish(3, "r3"))

    assert lost
    assert table.published() == ["r1", f"{JOB}/0", "r3"]
    assert table.mark == Mark(number=3, published="r3")
    assert writer.mark_of(table.read().properties) == Mark(number=1, published=0)
