"""How a gateway starts and stops, and what it says when it cannot start."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psutil
import pytest

from mt_core.client.home import holder_of, token_in
from tests.support.gateway.own_process import (
    FAST,
    ROOT,
    GatewayUnderTest,
    alive,
    launch,
    ready_url,
    wait_until,
)

pytestmark = pytest.mark.spark
SIGNALS = [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
OPEN = "asks for no token: every user of this machine can run code as"
STARTING = "Spark is starting, which can take half a minute; logs: "
START_S = 180.0


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mt_core", "gateway", *arguments]


def _options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("-D", setting)]


def _refused(*arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Start a gateway that must end at once with exit code 1, and return the one line that it says."""
    done = subprocess.run(
        _command(*arguments), cwd=ROOT, env=environ, capture_output=True, text=True, timeout=START_S, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    lines = [line for line in done.stderr.splitlines() if STARTING not in line and OPEN not in line]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("startup") / "home") as gateway:
        gateway.start()
        yield gateway


# -------------------------------------------------------------------------------------------------------- start and stop


def test_info_is_answered_while_spark_still_starts(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = _command("--home", str(tmp_path), *_options(*FAST, f"sql-gateway.endpoint.rest.port={port}"))
    began = time.monotonic()
    with launch(command, tmp_path / "stderr.txt") as process:
        wait_until(lambda: _answers(url), "no answer from /v3/info", START_S)
        answered = time.monotonic() - began
        assert ready_url(process) == url
        ready = time.monotonic() - began
        process.terminate()

    assert answered < ready
    assert process.returncode == 0
    first, second = (tmp_path / "stderr.txt").read_text(encoding="utf-8").splitlines()
    assert first.startswith(f"The gateway answers at {url}. {STARTING}")
    assert OPEN in second


def test_a_client_of_the_same_user_finds_the_token_while_spark_still_starts(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = _options(*FAST, f"sql-gateway.endpoint.rest.port={port}", "sql-gateway.security.tokens=generate")
    with launch(_command("--home", str(tmp_path), *options), tmp_path / "stderr.txt") as process:
        wait_until(lambda: _answers(url, 401), "no answer from /v3/info", START_S)
        token = token_in(tmp_path, url)
        process.terminate()

    assert token == (tmp_path / "token").read_text(encoding="ascii").strip()


def _answers(url: str, status: int = 200) -> bool:
    try:
        return httpx.get(f"{url}/v3/info", timeout=5.0).status_code == status
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_ready_gateway_and_its_jvm(tmp_path: Path, number: signal.Signals) -> None:
    gateway = GatewayUnderTest(tmp_path / "home")
    gateway.start()
    jvm = gateway.jvm_pid

    gateway.process.send_signal(number)

    assert gateway.wait_death() == 0
    assert not alive(jvm)
    assert _says_only_that_it_is_open(gateway.home)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_gateway_whose_spark_still_starts(tmp_path: Path, number: signal.Signals) -> None:
    options = _options(*FAST, "sql-gateway.security.tokens=generate")
    with launch(_command("--home", str(tmp_path), *options), tmp_path / "stderr.txt") as process:
        stderr = tmp_path / "stderr.txt"
        wait_until(lambda: STARTING in stderr.read_text(encoding="utf-8"), "the start was not told", START_S)
        wait_until(lambda: bool(_children(process.pid)), "no JVM was started", START_S)
        jvms = _children(process.pid)

        process.send_signal(number)

    [said] = stderr.read_text(encoding="utf-8").splitlines()
    assert STARTING in said
    assert (stat.S_IMODE(tmp_path.stat().st_mode), stat.S_IMODE((tmp_path / "token").stat().st_mode)) == (0o700, 0o600)
    assert process.returncode == 0
    wait_until(lambda: not any(alive(jvm) for jvm in jvms), "a JVM was left behind", START_S)


def _says_only_that_it_is_open(folder: Path) -> bool:
    lines = (folder / "stderr.txt").read_text(encoding="utf-8").splitlines()
    return len(lines) == 1 and OPEN in lines[0]


def _children(pid: int) -> list[int]:
    """Return the JVM of the process, once it is there."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True) if "java" in child.name()]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a JVM that hangs ends when it runs again")
def test_a_gateway_that_was_killed_starts_again_although_its_jvm_hung(tmp_path: Path) -> None:
    gateway = GatewayUnderTest(tmp_path / "home")
    gateway.start()
    jvm = gateway.jvm_pid
    # A JVM that does not notice the death of its gateway, as one in a long collection of garbage.
    psutil.Process(jvm).suspend()
    gateway.kill()

    process = launch(gateway.command, gateway.home / "stderr.txt")
    url = ready_url(process)

    assert not alive(jvm)
    assert _answers(url)
    process.terminate()
    assert process.wait(START_S) == 0
    assert process.stdout is not None
    process.stdout.close()


# --------------------------------------------------------------------------------------------------- what cannot start


def test_a_home_in_use_names_the_other_gateway(running: GatewayUnderTest) -> None:
    said = _refused("--home", str(running.home), *_options(*FAST))

    assert said == (
        f"Error: Home folder {running.home} is used by another gateway (process {running.process.pid} at {running.url}); "
        "use that one, stop it, or choose another folder with --home."
    )
    assert running.info() == 200


def test_a_registry_in_use_names_the_other_gateway_after_its_lease_was_renewed(
    running: GatewayUnderTest, tmp_path: Path
) -> None:
    command = _command("--home", str(tmp_path), *_options(*FAST, f"registry.url=sqlite:///{running.home}/registry.db"))

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False)

    waiting, refused = done.stderr.splitlines()
    other = re.escape(f"the gateway at {running.url} (process {running.process.pid} on ") + ".*"
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf".* WARNING The registry is held by {other}; waiting for its lease to end\.", waiting)
    assert re.fullmatch(rf"Error: The registry is used by {other}; use that one, stop it, or .*", refused)
    assert running.info() == 200


def test_a_port_in_use_is_named(running: GatewayUnderTest, tmp_path: Path) -> None:
    port = running.url.rsplit(":", 1)[1]

    said = _refused("--home", str(tmp_path), *_options(f"sql-gateway.endpoint.rest.port={port}"))

    assert re.fullmatch(rf"Error: .*127\.0\.0\.1:{port} .*sql-gateway\.endpoint\.rest\.port.*", said), said


def test_a_missing_jdk_says_how_to_get_one(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PATH")}

    said = _refused("--home", str(tmp_path), environ={**environ, "PATH": "", "JAVA_HOME": ""})

    assert said.startswith("Error: There is no Java on this machine. Install a JDK 17 or newer (")
    assert "apt install openjdk-17-jre-headless" in said


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    said = _refused("--home", str(tmp_path), environ={**os.environ, "JAVA_HOME": str(tmp_path)})

    assert said.startswith(
        f"Error: JAVA_HOME is {tmp_path}, and there is no bin/java in it. Install a JDK 17 or newer ("
    )


def test_a_config_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = _refused("-c", str(tmp_path / "none.yaml"), "--home", str(tmp_path))

    assert said.startswith("Error: ")
    assert str(tmp_path / "none.yaml") in said


@pytest.mark.parametrize("content", ["a: [1", "- one\n- two", "\xff\xfe\x00"])
def test_a_config_file_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "freshtable.yaml"
    file.write_bytes(content.encode("latin-1"))

    said = _refused("-c", str(file), "--home", str(tmp_path))

    assert said.startswith("Error: ")
    assert str(file) in said


def test_an_unknown_setting_suggests_the_nearest_key(tmp_path: Path) -> None:
    said = _refused("--home", str(tmp_path), "-D", "sql-gateway.endpoint.rest.prot=8083")

    assert "sql-gateway.endpoint.rest.prot" in said
    assert "sql-gateway.endpoint.rest.port" in said


def test_a_value_that_does_not_fit_names_key_and_value(tmp_path: Path) -> None:
    said = _refused("--home", str(tmp_path), "-D", "sql-gateway.endpoint.rest.port=eighty")

    assert "sql-gateway.endpoint.rest.port" in said
    assert "eighty" in said


def test_a_scheduler_that_is_not_installed_lists_those_that_are(tmp_path: Path) -> None:
    said = _refused("--home", str(tmp_path), *_options("workflow-scheduler.type=cron", FAST[0]))

    assert "cron" in said
    assert "memory" in said


def test_an_open_address_without_tokens_is_refused(tmp_path: Path) -> None:
    said = _refused("--home", str(tmp_path), *_options("sql-gateway.endpoint.rest.address=0.0.0.0", FAST[0]))

    assert said == (
        "Error: sql-gateway.endpoint.rest.address is 0.0.0.0, which other machines can reach: set "
        "sql-gateway.security.tokens, or listen on 127.0.0.1."
    )


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")

    said = _refused("--home", str(file), *_options(*FAST))

    assert said.startswith(f"Error: Home folder {file} cannot be used: ")
    assert said.endswith("choose another with --home.")


def test_a_registry_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    said = _refused("--home", str(tmp_path), *_options("registry.url=sqlite:////proc/none/registry.db", FAST[0]))

    assert "/proc/none/registry.db" in said


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("spark.master=everywhere", "Master must either be yarn or start with spark, k8s, or local"),
        ("spark.driver.memory=much", "Invalid maximum heap size: -Xmxmuch"),
    ],
)
def test_a_spark_that_can_never_start_ends_the_gateway_with_its_reason(
    tmp_path: Path, setting: str, reason: str
) -> None:
    said = _refused("--home", str(tmp_path), *_options(FAST[0], setting))

    assert said.startswith("Error: Spark did not start: ")
    assert said.endswith(f"{reason}. Its log is {tmp_path / 'logs' / 'spark.log'}.")


# ----------------------------------------------------------------------------------------------------- embedded in a home


@pytest.mark.slow
def test_an_embedded_gateway_stays_for_an_activated_table_and_ends_with_its_jvm_after_the_client_that_suspends_it() -> (
    None
):
    statements = (
        "CREATE TABLE orders (ds STRING, amount INT)",
        "INSERT INTO orders VALUES ('a', 1)",
        "SELECT * FROM orders",
        "CREATE MATERIALIZED TABLE daily FRESHNESS = INTERVAL '1' DAY AS SELECT ds, amount FROM orders",
    )
    with TemporaryDirectory(prefix="home") as folder, ExitStack() as ended:
        home = Path(folder)
        ended.callback(_ended, home)

        first = _embedded(home, *statements)
        holder = holder_of(home)
        assert holder is not None, first.stderr
        processes = [psutil.Process(holder.pid), *psutil.Process(holder.pid).children(recursive=True)]
        second = _embedded(home, "REFRESH MATERIALIZED TABLE daily", "ALTER MATERIALIZED TABLE daily SUSPEND")
        _, staying = psutil.wait_procs(processes, START_S)
        left = (home / "gateway.sock").exists()

    assert (first.returncode, second.returncode, staying, left) == (0, 0, [], False), (first.stderr, second.stderr)
    assert "a,1\n" in first.stdout
    assert len(processes) > 1
    assert f"goes on as process {holder.pid}, and ends after that: " in first.stderr
    assert "1 materialized table is ACTIVATED" in first.stderr
    assert f"(process {holder.pid}) holds {home}, and is used." in second.stderr
    assert "goes on as process" not in second.stderr


def _ended(home: Path) -> None:
    """End the gateway of *home* if a test that failed has left it."""
    if (holder := holder_of(home)) is not None:
        psutil.Process(holder.pid).terminate()


def _embedded(home: Path, *statements: str) -> subprocess.CompletedProcess[str]:
    """Run *statements* by a client on the gateway of *home*, which it starts if there is none."""
    command = [sys.executable, "-m", "mt_core", "sql", "--embedded", "--home", str(home), "--format", "csv"]
    options = ["--catalog", "lake", "--schema", "default", "-D", "table.dml-sync=true"]
    texts = [part for statement in statements for part in ("-e", statement)]
    return subprocess.run(
        [*command, *options, *texts], cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False
    )
