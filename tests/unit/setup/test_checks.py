from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit
from zipfile import ZipFile

import pytest

from mt_core.client.http import GatewayRefused
from mt_core.client.info import GatewayInfo
from mt_core.clock import SystemClock
from mt_core.config import load_config
from mt_core.gateway.http.server import listen
from mt_core.model.finding import Finding, Level
from mt_core.registry.inspection import DatabaseState, inspect_database
from mt_core.registry.schema import NEWEST
from mt_core.registry.store import SqlRegistry
from mt_core.setup.checks import (
    authentication,
    clock,
    databases,
    gateway,
    home,
    jars,
    java,
    port,
    scheduler,
    settings,
    warehouse,
)
from mt_core.setup.machine import Machine
from mt_core.spark.driver.jars import PACKAGES
from mt_core.spark.driver.web_jars import WebJar

FREE = 50 << 30
START = "freshtable gateway"


def machine(home_folder: Path, environ: Mapping[str, str] | None = None, **options: object) -> Machine:
    """Return a machine with a home and with settings, whose dots are written as two underscores."""
    overrides = [f"{key.replace('__', '.').replace('_', '-')}={value}" for key, value in options.items()]
    return Machine(
        config=load_config(None, {}, overrides, home_folder), environ=dict(environ or {}), clock=SystemClock()
    )


def summary(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level.value, finding.text) for finding in findings]


@contextmanager
def answering(
    status: int, body: object, sent: list[str | None] | None = None, headers: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Serve one answer for every request, and yield the port;
    *sent* receives the header Authorization of each.
    """

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if sent is not None:
                sent.append(self.headers.get("Authorization"))
            content = json.dumps(body).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number: int = taken.getsockname()[1]
        return number


# ------------------------------------------------------------------------------------------------- java, jars


def java_that_says(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="ascii")
    program.chmod(0o755)
    return program


def test_java_is_found_by_its_variable_or_on_the_path(tmp_path: Path) -> None:
    program = java_that_says(tmp_path, "17.0.9")

    by_variable = java.check(machine(tmp_path, {"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}))
    on_path = java.check(machine(tmp_path, {"PATH": f"{program.parent}:{os.environ['PATH']}"}))

    assert summary(by_variable) == [("ok", f"Java 17, {program}, found by JAVA_HOME")]
    assert summary(on_path) == [("ok", f"Java 17, {program}, found on the PATH")]


def test_a_java_that_is_too_old_or_missing_has_the_command_that_installs_one(tmp_path: Path) -> None:
    program = java_that_says(tmp_path, "11.0.2")

    [old] = java.check(machine(tmp_path, {"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}))
    [missing] = java.check(machine(tmp_path, {"PATH": str(tmp_path)}))

    assert old.text == f"{program} is Java 11; Spark needs 17 or newer."
    assert missing.text == "There is no Java on this machine."
    assert {old.level, missing.level} == {Level.PROBLEM}
    assert "apt install openjdk-17-jre-headless" in old.way_out


def test_the_jars_that_are_missing_are_named(tmp_path: Path) -> None:
    for package in PACKAGES[1:]:
        _, artifact, version = package.split(":")
        with ZipFile(tmp_path / f"{artifact}-{version}.jar", "w"):
            pass

    finding = jars.judge_packages(jars.missing_packages(tmp_path), tmp_path)

    assert finding.level is Level.NOTE
    assert finding.text.startswith(
        f"{tmp_path} does not have iceberg-spark-runtime-4.1_2.13; the gateway fetches"
    )


def test_jars_that_are_all_there_need_no_network(tmp_path: Path) -> None:
    assert jars.judge_packages([], tmp_path).level is Level.OK


def test_the_jars_of_the_page_are_there_missing_or_wrong(tmp_path: Path) -> None:
    good, wrong = (tmp_path / f"{name}-1.0.jar" for name in ("good", "wrong"))
    for path in (good, wrong):
        with ZipFile(path, "w") as archive:
            archive.writestr("file.js", path.name)
    hashes = {path.stem[:-4]: hashlib.sha256(path.read_bytes()).hexdigest() for path in (good, wrong)}

    def found(*pins: tuple[str, str]) -> list[tuple[str, str]]:
        pinned = [WebJar(package=f"npm:{name}:1.0", sha256=sha256, files={}) for name, sha256 in pins]
        return summary(list(jars.page_jars(tmp_path, pinned)))

    pin, other = ("good", hashes["good"]), ("wrong", "0" * 64)
    problem = (
        "problem",
        f"{wrong} is not the jar that this release needs for its page: "
        f"its SHA-256 is {hashes['wrong']} instead of {'0' * 64}",
    )
    note = (
        "note",
        f"{tmp_path} does not have absent; the gateway fetches them from Maven Central while it runs, "
        "and its page does without them until then",
    )
    assert found(pin) == [("ok", f"the JavaScript libraries of the page are in {tmp_path}")]
    assert found(pin, ("absent", "")) == [note]
    assert found(pin, other) == [problem]
    assert found(other, ("absent", ""), pin) == [problem, note]


def test_a_jar_that_settings_name_is_there_broken_missing_or_elsewhere(tmp_path: Path) -> None:
    good, broken, missing = (tmp_path / name for name in ("good.jar", "broken.jar", "missing.jar"))
    with ZipFile(good, "w"):
        pass
    broken.write_text("half", encoding="ascii")
    named = f"{good},file://{broken}, {missing},hdfs://host/far.jar"

    found = list(jars.named_jars({"spark.jars": named}))

    assert summary(found) == [
        ("ok", f"{good} exists"),
        ("problem", f"{broken} of spark.jars is not a jar"),
        ("problem", f"{missing} of spark.jars does not exist"),
        ("note", "hdfs://host/far.jar is fetched by Spark and was not checked"),
    ]


S3 = {"spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
MYSQL = {"spark.sql.catalog.shop.uri": "jdbc:mysql://db/shop"}


@pytest.mark.parametrize(
    ("conf", "place", "problems"),
    [
        ({}, "/data", []),
        (
            S3,
            "s3://lake/w",
            ["spark.sql.catalog.lake.io-impl needs the jar iceberg-aws-bundle, which no setting names"],
        ),
        (S3 | {"spark.jars": "/opt/iceberg-aws-bundle-1.12.0.jar"}, "s3://lake/w", []),
        (
            MYSQL,
            "/data",
            ["spark.sql.catalog.shop.uri needs the jar mysql-connector, which no setting names"],
        ),
        (MYSQL | {"spark.jars.packages": "com.mysql:mysql-connector-j:9.1.0"}, "/data", []),
        (
            {},
            "s3a://lake/w",
            ["catalog.warehouse s3a://lake/w needs the jar hadoop-aws, which no setting names"],
        ),
        ({}, "hdfs://host/w", []),
        (
            {},
            "s3://lake/w",
            ["catalog.warehouse s3://lake/w needs the jar iceberg-aws-bundle, which no setting names"],
        ),
        ({"spark.jars": "/opt/iceberg-aws-bundle-1.12.0.jar"}, "s3://lake/w", []),
        (
            {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"},
            "s3://lake/w",
            ["catalog.warehouse s3://lake/w needs the jar hadoop-aws, which no setting names"],
        ),
    ],
)
def test_a_driver_or_file_system_that_settings_ask_for_must_be_named(
    conf: dict[str, str], place: str, problems: list[str]
) -> None:
    assert summary(list(jars.needed_jars(conf, place))) == [("problem", text) for text in problems]


def test_jars_that_were_added_need_no_setting(tmp_path: Path) -> None:
    here = machine(tmp_path, {"FRESHTABLE_SPARK_JARS": str(tmp_path)}, catalog__warehouse="s3://lake/w")
    before = problems(jars.check(here))

    with ZipFile(tmp_path / "iceberg-aws-bundle-1.12.0.jar", "w"):
        pass

    assert [(finding.text, finding.way_out) for finding in before] == [
        (
            "catalog.warehouse s3://lake/w needs the jar iceberg-aws-bundle, which no setting names",
            "freshtable jars add aws",
        )
    ]
    assert problems(jars.check(here)) == []


def test_checkpoints_on_s3_need_the_file_system_of_hadoop(tmp_path: Path) -> None:
    here = machine(
        tmp_path,
        {"FRESHTABLE_SPARK_JARS": str(tmp_path)},
        execution__checkpointing__dir="s3a://lake/checkpoints",
    )

    [missing] = problems(jars.check(here))

    assert (missing.text, missing.way_out) == (
        "execution.checkpointing.dir s3a://lake/checkpoints needs the jar hadoop-aws, which no setting names",
        "freshtable jars add s3a",
    )


def problems(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level is Level.PROBLEM]


def test_a_class_path_may_have_the_driver_that_no_setting_names() -> None:
    [finding] = jars.needed_jars(MYSQL | {"spark.driver.extraClassPath": "/opt/jars/*"}, "/data")

    assert finding.level is Level.NOTE


# --------------------------------------------------------------------------------------- port, gateway, clock


def test_a_port_is_free_held_by_a_gateway_or_held_by_another_program(tmp_path: Path) -> None:
    number = free_port()
    key = "sql_gateway__endpoint__rest__port"

    free = port.check(machine(tmp_path, **{key: number}))
    with answering(200, {"productName": "Freshtable", "version": "9.9"}) as held:
        by_gateway = port.check(machine(tmp_path, **{key: held}))
    with answering(200, {"hello": "world"}) as taken:
        [by_other] = port.check(machine(tmp_path, **{key: taken}))

    assert summary(free) == [("ok", f"127.0.0.1:{number} is free")]
    assert summary(by_gateway) == [("ok", f"127.0.0.1:{held} is used by a Freshtable gateway, version 9.9")]
    assert by_other.level is Level.PROBLEM
    assert by_other.text.startswith(f"127.0.0.1:{taken} is used by another program (http://127.0.0.1:")
    assert by_other.way_out.endswith(f"-D sql-gateway.endpoint.rest.port={taken + 1}")


def test_a_gateway_can_begin_to_listen_while_its_port_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[socket.socket] = []
    close = socket.socket.close

    def close_late(probe: socket.socket) -> None:
        if not begun and probe.getsockname()[1] == number:
            begun.append(probe)
            begun.append(listen("127.0.0.1", number))
        close(probe)

    number = free_port()
    monkeypatch.setattr(socket.socket, "close", close_late)

    [finding] = port.check(machine(tmp_path, sql_gateway__endpoint__rest__port=number))

    monkeypatch.undo()
    begun[1].close()
    assert (finding.level, len(begun)) == (Level.OK, 2)


def test_an_address_of_another_machine_cannot_be_listened_on(tmp_path: Path) -> None:
    [finding] = port.check(machine(tmp_path, sql_gateway__endpoint__rest__address="192.0.2.1"))

    assert (finding.level, finding.way_out) == (
        Level.PROBLEM,
        "-D sql-gateway.endpoint.rest.address=127.0.0.1",
    )


def test_a_gateway_that_never_ran_is_no_problem_and_one_that_the_home_names_is(tmp_path: Path) -> None:
    number = free_port()
    here = machine(tmp_path, sql_gateway__endpoint__rest__port=number)

    [never] = gateway.check(here)
    (tmp_path / "gateway.json").write_text(json.dumps({"pid": 1, "url": f"http://127.0.0.1:{number}"}))
    [silent] = gateway.check(here)

    assert (never.level, never.text) == (Level.NOTE, "no gateway runs")
    assert silent.level is Level.PROBLEM
    assert silent.text.endswith("; its home folder says that it is running")
    assert never.way_out == silent.way_out == f"freshtable gateway --home {tmp_path}"


def test_the_command_that_starts_a_gateway_has_the_file_of_settings_that_was_looked_at(
    tmp_path: Path,
) -> None:
    here = replace(
        machine(tmp_path, sql_gateway__endpoint__rest__port=free_port()), config_file=Path("my conf.yaml")
    )

    [never] = gateway.check(here)

    assert never.way_out == f"freshtable gateway -c 'my conf.yaml' --home {tmp_path}"


@pytest.mark.parametrize(
    ("engine", "version", "level"),
    [("READY", "1.0", Level.OK), ("READY", "0.9", Level.NOTE), ("Spark is starting", "1.0", Level.PROBLEM)],
)
def test_a_gateway_is_judged_by_its_version_and_its_spark(engine: str, version: str, level: Level) -> None:
    info = GatewayInfo(version=version, engine=engine, date=None)

    assert gateway.judge_answer("http://127.0.0.1:8083", info, "1.0").level is level


def test_what_spark_does_more_slowly_than_it_could_is_a_note() -> None:
    info = GatewayInfo(version="1.0", engine="READY", date=None, engine_note="jobs compute small changes")

    finding = gateway.judge_answer("http://127.0.0.1:8083", info, "1.0")

    assert (finding.level, "jobs compute small changes" in finding.text) == (Level.NOTE, True)
    assert "pyspark" in finding.way_out


def test_a_token_that_is_missing_is_asked_for() -> None:
    finding = gateway.judge_silence(GatewayRefused("Unauthorized", code="UNAUTHORIZED"), START, held=False)

    assert (finding.level, "FRESHTABLE_TOKEN" in finding.way_out) == (Level.PROBLEM, True)


def test_the_clock_of_a_gateway_is_compared(tmp_path: Path) -> None:
    key = "sql_gateway__endpoint__rest__port"
    with answering(200, {"productName": "Freshtable", "version": "1"}) as held:
        [agrees] = clock.check(machine(tmp_path, **{key: held}))
    [silent] = clock.check(machine(tmp_path, **{key: free_port()}))

    assert summary([agrees]) == [("ok", f"agrees with the clock of the gateway at http://127.0.0.1:{held}")]
    assert silent.level is Level.NOTE


def test_a_gateway_on_all_addresses_is_called_on_the_loopback_one(tmp_path: Path) -> None:
    every = machine(tmp_path, sql_gateway__endpoint__rest__address="0.0.0.0")
    every_6 = machine(tmp_path, sql_gateway__endpoint__rest__address="::")
    (tmp_path / "gateway.json").write_text(json.dumps({"pid": 1, "url": "http://0.0.0.0:9000"}))

    assert every.configured_url == "http://127.0.0.1:8083"
    assert every_6.configured_url == "http://[::1]:8083"
    assert every.gateway_url == "http://127.0.0.1:9000"


def test_no_token_of_the_configuration_goes_to_a_program_that_the_home_does_not_name(tmp_path: Path) -> None:
    sent: list[str | None] = []
    key = "sql_gateway__endpoint__rest__port"
    with answering(200, {"hello": "world"}, sent) as held:
        here = machine(tmp_path, sql_gateway__security__tokens="me:admin:s3cret", **{key: held})
        found = [*port.check(here), *gateway.check(here), *clock.check(here)]

    assert sent == [None, None, None]
    assert [finding.level for finding in found] == [Level.PROBLEM, Level.NOTE, Level.NOTE]


def test_a_port_is_held_by_a_gateway_that_asks_for_a_token(tmp_path: Path) -> None:
    refusal = {"Freshtable-Error": "UNAUTHORIZED"}
    with answering(401, {"errors": ["Unauthorized: this gateway asks for a token."]}, [], refusal) as held:
        [finding] = port.check(machine(tmp_path, sql_gateway__endpoint__rest__port=held))

    assert finding == Finding.ok(
        "port", f"127.0.0.1:{held} is used by a Freshtable gateway, which requires a token"
    )


def test_the_token_is_that_of_the_environment_before_the_generated_and_the_configured_one(
    tmp_path: Path,
) -> None:
    key = "sql_gateway__security__tokens"

    of_a_stranger = machine(tmp_path, **{key: "me:admin:from-settings"}).token
    (tmp_path / "gateway.json").write_text(json.dumps({"pid": 1, "url": "http://127.0.0.1:8083"}))
    configured = machine(tmp_path, **{key: "me:admin:from-settings"}).token
    (tmp_path / "token").write_text("generated\n")
    generated = machine(tmp_path, **{key: "generate"}).token
    given = machine(tmp_path, {"FRESHTABLE_TOKEN": "given"}, **{key: "generate"}).token

    assert (of_a_stranger, configured, generated, given) == (None, "from-settings", "generated", "given")


# ------------------------------------------------------------------------------------------------------- home


def state(**facts: object) -> home.HomeState:
    usual: dict[str, object] = {"folder": Path("/data/h"), "exists": True, "writable": True, "free": FREE}
    return home.HomeState(**(usual | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "level", "text"),
    [
        ({}, "ok", "/data/h can be written, only by this user"),
        ({"exists": False}, "note", "/data/h does not exist; the gateway creates it"),
        (
            {"exists": False, "writable": False},
            "problem",
            "/data/h does not exist and cannot be created by this user",
        ),
        ({"writable": False}, "problem", "/data/h cannot be written by this user"),
        ({"is_mine": False, "writable": False}, "problem", "/data/h belongs to another user"),
        (
            {"mode": 0o755},
            "note",
            "/data/h is open to other users (mode 0755); the gateway closes it when it starts",
        ),
        ({"is_folder": False}, "problem", "/data/h is not a folder, or its parent is not one"),
    ],
)
def test_a_home_is_judged_by_who_can_use_it(facts: dict[str, object], level: str, text: str) -> None:
    assert summary(list(home.judge(state(**facts), START))) == [(level, text)]


def test_a_home_that_was_opened_while_a_gateway_runs_is_a_problem() -> None:
    found = list(
        home.judge(state(mode=0o755, holder=4711, holder_runs=True, url="http://127.0.0.1:8083"), START)
    )

    assert summary(found) == [
        ("problem", "/data/h is open to other users (mode 0755)"),
        ("ok", "owned by the gateway at http://127.0.0.1:8083 (process 4711)"),
    ]


def test_a_disk_that_is_nearly_full_is_a_problem_besides() -> None:
    found = list(home.judge(state(free=300 << 20), START))

    assert [finding.level for finding in found] == [Level.OK, Level.PROBLEM]
    assert found[1].text == "only 300 MB are free for /data/h"


def test_the_gateway_that_holds_a_home_is_named_and_one_that_was_killed_too() -> None:
    held = state(holder=7, holder_runs=True, url="http://127.0.0.1:8083")
    killed = state(holder=7, url="http://127.0.0.1:8083")

    assert (
        list(home.judge(held, START))[1].text == "owned by the gateway at http://127.0.0.1:8083 (process 7)"
    )
    assert list(home.judge(killed, START))[1].level is Level.NOTE


def test_a_real_home_is_looked_at_and_nothing_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "home"

    before = summary(home.check(machine(folder)))
    folder.mkdir(mode=0o700)
    (folder / "gateway.json").write_text(json.dumps({"pid": os.getpid(), "url": "http://127.0.0.1:1"}))
    after = summary(home.check(machine(folder)))

    assert before[0] == ("note", f"{folder} does not exist; the gateway creates it")
    assert after[0] == ("ok", f"{folder} can be written, only by this user")
    assert after[-1] == ("ok", f"owned by the gateway at http://127.0.0.1:1 (process {os.getpid()})")
    assert [each.name for each in folder.iterdir()] == ["gateway.json"]


def test_a_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    [finding] = home.check(machine(tmp_path / "file" / "home"))

    assert (finding.level, finding.way_out) == (Level.PROBLEM, "choose another folder with --home")


# -------------------------------------------------------------------------------------------------- databases


def database(**facts: object) -> DatabaseState:
    return DatabaseState(**({"name": "db", "exists": True} | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("migration", "level"),
    [(None, Level.NOTE), ("0002", Level.OK), ("0001", Level.NOTE), ("0003", Level.PROBLEM)],
)
def test_a_registry_is_judged_by_its_last_migration(migration: str | None, level: Level) -> None:
    assert databases.judge_registry(database(migration=migration), "0002").level is level


def test_a_registry_that_is_not_there_is_not_made_and_one_that_is_has_the_newest_schema(
    tmp_path: Path,
) -> None:
    file = tmp_path / "registry.db"
    here = machine(tmp_path)

    before = databases.check_registry(here)
    made = file.exists()
    SqlRegistry.open(f"sqlite:///{file}").close()
    after = databases.check_registry(here)

    name = f"sqlite:///{file}"
    assert summary(before) == [("note", f"{name} has no registry yet; the gateway creates it when it starts")]
    assert not made
    assert summary(after) == [("ok", f"{name} answers, with schema {NEWEST}")]


def test_a_registry_that_a_gateway_writes_to_can_be_looked_at(tmp_path: Path) -> None:
    registry = SqlRegistry.open(f"sqlite:///{tmp_path}/registry.db")
    try:
        with registry.transaction():
            found = inspect_database(f"sqlite:///{tmp_path}/registry.db", 1)
    finally:
        registry.close()

    assert found.migration == NEWEST


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "registry.db").write_bytes(b"no database at all, but long enough to be read as one" * 20)

    [finding] = databases.check_registry(machine(tmp_path))

    assert (finding.level, finding.way_out) == (
        Level.PROBLEM,
        "restore the file from a backup, or correct registry.url",
    )
    assert "registry.db" in finding.text


def test_a_database_server_that_is_away_is_a_problem_without_its_password(tmp_path: Path) -> None:
    url = f"postgresql://me:s3cret@127.0.0.1:{free_port()}/lake"

    [registry] = databases.check_registry(machine(tmp_path, registry__url=url))
    [catalog] = databases.check_catalog(machine(tmp_path, catalog__url=url))

    assert {registry.level, catalog.level} == {Level.PROBLEM}
    assert "s3cret" not in registry.text + catalog.text
    assert catalog.way_out == "start the database, or correct catalog.url"


def test_a_catalog_of_another_database_is_not_looked_at(tmp_path: Path) -> None:
    [finding] = databases.check_catalog(machine(tmp_path, catalog__url="jdbc:mysql://me:s3cret@db/lake"))

    assert summary([finding]) == [
        ("note", "catalog.url (jdbc:mysql:…) is read only by Spark and was not checked")
    ]


@pytest.mark.parametrize(
    ("status", "level", "words"),
    [
        (200, Level.OK, "answers; freshtable doctor --catalog lake"),
        (401, Level.OK, "answers, and asks for a token"),
        (404, Level.PROBLEM, "is not an Iceberg REST server: it answers 404"),
    ],
)
def test_the_server_of_a_rest_catalog_is_asked_for_its_configuration(
    tmp_path: Path, status: int, level: Level, words: str
) -> None:
    with answering(status, {"defaults": {}, "overrides": {}}) as port:
        [finding] = databases.check_catalog(
            machine(tmp_path, catalog__type="rest", catalog__uri=f"http://127.0.0.1:{port}")
        )

    assert finding.level is level
    assert words in finding.text


def test_a_server_of_a_rest_catalog_that_is_away_is_a_problem(tmp_path: Path) -> None:
    url = f"http://me:s3cret@127.0.0.1:{free_port()}"

    [finding] = databases.check_catalog(machine(tmp_path, catalog__type="rest", catalog__uri=url))

    assert finding.level is Level.PROBLEM
    assert finding.way_out == "start the server, or correct catalog.uri"
    assert "s3cret" not in finding.text


def test_the_store_of_a_rest_catalog_is_its_servers(tmp_path: Path) -> None:
    own = machine(tmp_path, catalog__type="rest", catalog__uri="http://h", catalog__warehouse="s3://b/w")

    [finding] = warehouse.check(own)

    assert finding.level is Level.NOTE


def test_a_catalog_that_iceberg_has_used_is_all_right() -> None:
    assert databases.judge_catalog(database(tables=frozenset({"iceberg_tables"}))).level is Level.OK
    assert databases.judge_catalog(database()).level is Level.NOTE


# ------------------------------------------------------------------------------------- store, scheduler, rest


@pytest.mark.parametrize(
    ("place", "conf", "environ", "address"),
    [
        ("s3://b/w", {}, {}, ("s3.amazonaws.com", 443)),
        ("s3://b/w", {}, {"AWS_REGION": "eu-central-1"}, ("s3.eu-central-1.amazonaws.com", 443)),
        (
            "s3://b/w",
            {"spark.sql.catalog.lake.client.region": "us-east-2"},
            {},
            ("s3.us-east-2.amazonaws.com", 443),
        ),
        ("s3://b/w", {"spark.sql.catalog.lake.s3.endpoint": "http://minio:9000"}, {}, ("minio", 9000)),
        ("s3a://b/w", {"spark.hadoop.fs.s3a.endpoint": "minio"}, {}, ("minio", 443)),
        ("s3://b/w", {}, {"AWS_ENDPOINT_URL": "http://minio"}, ("minio", 80)),
        ("gs://b/w", {}, {}, ("storage.googleapis.com", 443)),
        ("abfss://c@a.dfs.core.windows.net/w", {}, {}, ("a.dfs.core.windows.net", 443)),
        ("hdfs://name:9000/w", {}, {}, ("name", 9000)),
        ("hdfs:///w", {}, {}, None),
        ("oss://b/w", {}, {}, None),
    ],
)
def test_the_address_of_a_store_is_that_of_its_settings_or_its_scheme(
    place: str, conf: dict[str, str], environ: dict[str, str], address: tuple[str, int] | None
) -> None:
    assert warehouse.address_of(urlsplit(place), conf, environ) == address


def test_a_store_answers_or_cannot_be_reached(tmp_path: Path) -> None:
    endpoint = "spark__sql__catalog__lake__s3__endpoint"
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        address = f"http://127.0.0.1:{number}"
        [there] = warehouse.check(machine(tmp_path, catalog__warehouse="s3://b/w", **{endpoint: address}))
    [gone] = warehouse.check(machine(tmp_path, catalog__warehouse="s3://b/w", **{endpoint: address}))

    assert (
        there.text == f"127.0.0.1:{number}, the store of s3://b/w, answers; its credentials were not checked"
    )
    assert (there.level, gone.level) == (Level.OK, Level.PROBLEM)


def test_a_warehouse_that_is_a_folder_must_be_one_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    [usual] = warehouse.check(machine(tmp_path))
    [file] = warehouse.check(machine(tmp_path, catalog__warehouse=f"file://{tmp_path}/file/warehouse"))

    assert (usual.level, file.level) == (Level.OK, Level.PROBLEM)
    assert file.text == f"the warehouse {tmp_path}/file/warehouse cannot be written by this user"


def test_the_scheduler_must_be_installed_and_have_what_it_needs(tmp_path: Path) -> None:
    memory = scheduler.check(machine(tmp_path))
    [unknown] = scheduler.check(machine(tmp_path, workflow_scheduler__type="sundial"))
    [incomplete] = scheduler.check(machine(tmp_path, workflow_scheduler__type="airflow"))

    assert summary(memory) == [("ok", "memory is installed")]
    assert unknown.text.startswith("workflow-scheduler.type 'sundial' is not installed")
    assert incomplete.text.startswith("workflow-scheduler.airflow.endpoint must be set")
    assert incomplete.way_out == "correct workflow-scheduler.type and workflow-scheduler.airflow.*"


def test_settings_with_which_no_gateway_starts_are_a_problem(tmp_path: Path) -> None:
    [fine] = settings.check(machine(tmp_path))
    [open_to_all] = settings.check(machine(tmp_path, sql_gateway__endpoint__rest__address="0.0.0.0"))

    assert (fine.level, open_to_all.level) == (Level.OK, Level.PROBLEM)
    assert "sql-gateway.security.tokens" in open_to_all.text


def test_ports_of_spark_that_ask_for_no_secret_are_said(tmp_path: Path) -> None:
    cluster = {"spark__master": "spark://h:7077"}
    secret = {**cluster, "spark__authenticate__secret": "hush"}
    allowed = {**cluster, "sql_gateway__engine__allow_unauthenticated": "true"}

    [refused] = settings.check(machine(tmp_path, **cluster))
    said = [
        summary(authentication.check(machine(tmp_path, **options)))
        for options in ({}, cluster, secret, {**secret, "spark__network__crypto__enabled": "true"}, allowed)
    ]

    assert refused.level is Level.PROBLEM
    assert "spark.authenticate.secret" in refused.text
    assert said == [
        [("ok", "require a secret")],
        [],
        [("note", "require a secret; the network traffic of spark://h:7077 is not encrypted")],
        [("ok", "require a secret")],
        [
            (
                "note",
                (
                    "those of Spark on spark://h:7077 do not require a secret: "
                    "anyone who reaches them can run code as the gateway's user"
                ),
            )
        ],
    ]


def test_the_answer_of_a_gateway_has_its_time(tmp_path: Path) -> None:
    headers = {"date": "Sun, 01 Mar 2026 12:00:00 GMT", "Freshtable-Engine": "Spark is starting"}

    info = GatewayInfo.from_answer("http://gw", headers, {"productName": "Freshtable", "version": "1"})

    assert info == GatewayInfo(version="1", engine="Spark is starting", date="Sun, 01 Mar 2026 12:00:00 GMT")
