"""A gateway that cannot start exits at once, with one line that says why."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from mt_core.app.home import Home
from mt_core.client.home import TRY_AGAIN
from mt_core.model.gateway import GatewayLease
from mt_core.registry.store import SqlRegistry
from mt_core.tables.upkeep.gateways import LEASE
from tests.support.earlier_registry import SCHEMA, schema_of, write_earlier_registry
from tests.support.gateway.forked import run_gateway

ANY_PORT = "sql-gateway.endpoint.rest.port=0"
URL = "http://127.0.0.1:8083"


def refused(*arguments: str, environ: Mapping[str, str] | None = None, code: int = 1) -> str:
    """Start a gateway that must exit at once with exit code *code*, and return its only line of output."""
    ended = run_gateway(*arguments, environ=environ)

    assert (ended.returncode, ended.stdout) == (code, "")
    [line] = ended.stderr.splitlines()
    return line


def options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("-D", setting)]


@pytest.mark.parametrize(("setting", "code"), [("embedded=false", 1), ("embedded=true", TRY_AGAIN)])
def test_a_home_in_use_names_the_other_gateway_with_an_exit_code_for_who_embeds_it(
    tmp_path: Path, setting: str, code: int
) -> None:
    holder = Home(tmp_path)
    holder.take()
    holder.note(url=URL, jvm_pid=None)

    said = refused("--home", str(tmp_path), *options(ANY_PORT, f"sql-gateway.{setting}"), code=code)
    noted = holder.read_holder()
    holder.release()

    assert said == (
        f"Error: Home folder {tmp_path} is used by another gateway (process {os.getpid()} at {URL}); "
        "use that one, stop it, or choose another folder with --home."
    )
    assert (noted["pid"], noted["url"]) == (os.getpid(), URL)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        said = refused("--home", str(tmp_path), *options(f"sql-gateway.endpoint.rest.port={port}"))

    assert re.fullmatch(rf"Error: .*127\.0\.0\.1:{port} .*sql-gateway\.endpoint\.rest\.port.*", said), said


def test_a_missing_jdk_says_how_to_get_one(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PATH")}

    said = refused("--home", str(tmp_path), environ={**environ, "PATH": "", "JAVA_HOME": ""})

    assert said.startswith("Error: There is no Java on this machine. Install a JDK 17 or newer (")
    assert "apt install openjdk-17-jre-headless" in said


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    said = refused("--home", str(tmp_path), environ={**os.environ, "JAVA_HOME": str(tmp_path)})

    assert said.startswith(
        f"Error: JAVA_HOME is {tmp_path}, and there is no bin/java in it. Install a JDK 17 or newer ("
    )


def test_a_config_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = refused("-c", str(tmp_path / "none.yaml"), "--home", str(tmp_path))

    assert said.startswith("Error: ")
    assert str(tmp_path / "none.yaml") in said


@pytest.mark.parametrize("content", ["a: [1", "- one\n- two", "\xff\xfe\x00"])
def test_a_config_file_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "freshtable.yaml"
    file.write_bytes(content.encode("latin-1"))

    said = refused("-c", str(file), "--home", str(tmp_path))

    assert said.startswith("Error: ")
    assert str(file) in said


def test_an_unknown_setting_suggests_the_nearest_key(tmp_path: Path) -> None:
    said = refused("--home", str(tmp_path), "-D", "sql-gateway.endpoint.rest.prot=8083")

    assert "sql-gateway.endpoint.rest.prot" in said
    assert "sql-gateway.endpoint.rest.port" in said


def test_a_value_that_does_not_fit_names_key_and_value(tmp_path: Path) -> None:
    said = refused("--home", str(tmp_path), "-D", "sql-gateway.endpoint.rest.port=eighty")

    assert "sql-gateway.endpoint.rest.port" in said
    assert "eighty" in said


def test_a_scheduler_that_is_not_installed_lists_those_that_are(tmp_path: Path) -> None:
    said = refused("--home", str(tmp_path), *options("workflow-scheduler.type=cron", ANY_PORT))

    assert "cron" in said
    assert "memory" in said


def test_an_open_address_without_tokens_is_refused(tmp_path: Path) -> None:
    said = refused("--home", str(tmp_path), *options("sql-gateway.endpoint.rest.address=0.0.0.0", ANY_PORT))

    assert said == (
        "Error: sql-gateway.endpoint.rest.address is 0.0.0.0, which other machines can reach: set "
        "sql-gateway.security.tokens, or listen on 127.0.0.1."
    )


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")

    said = refused("--home", str(file), *options(ANY_PORT))

    assert said.startswith(f"Error: Home folder {file} cannot be used: ")
    assert said.endswith("choose another with --home.")


def test_a_registry_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    said = refused(
        "--home", str(tmp_path), *options("registry.url=sqlite:////proc/none/registry.db", ANY_PORT)
    )

    assert "/proc/none/registry.db" in said


def test_a_registry_that_a_gateway_of_an_earlier_release_uses_is_not_migrated(tmp_path: Path) -> None:
    url, ended = f"sqlite:///{tmp_path}/registry.db", threading.Event()
    write_earlier_registry(url)

    def renew(registry: SqlRegistry) -> None:
        with registry.transaction() as tx:
            lease_until = tx.now() + LEASE
            tx.gateways.put(GatewayLease(owner="earlier", lease_until=lease_until, url=URL))

    def renew_often(registry: SqlRegistry) -> None:
        while not ended.wait(0.2):
            renew(registry)

    with closing(SqlRegistry.open(url, migrate=False)) as registry, ThreadPoolExecutor(1) as pool:
        renew(registry)
        renewal = pool.submit(renew_often, registry)
        try:
            gateway = run_gateway("--home", str(tmp_path / "home"), *options(ANY_PORT, f"registry.url={url}"))
        finally:
            ended.set()
        renewal.result()

    assert gateway.returncode == 1
    assert f"Error: The registry is used by the gateway at {URL}" in gateway.stderr
    assert schema_of(url) == SCHEMA
