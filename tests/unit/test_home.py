from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from mt_core.app import process_identity
from mt_core.app.home import Home
from mt_core.cli import app


def java(folder: Path) -> Path:
    """Return a program of the name `java` that sleeps."""
    program, sleep = folder / "java", shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, program)
    return program


def note_jvm(home: Home, pid: int, started: str | None) -> None:
    """Let an earlier gateway have held *home*, with the JVM *pid*."""
    home.folder.mkdir()
    noted = {"pid": 1, "url": None, "jvm_pid": pid, "jvm_started": started}
    home.holder.write_text(json.dumps(noted), encoding="utf-8")


def test_a_home_is_taken_after_the_jvm_of_the_gateway_before_has_ended(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with subprocess.Popen([java(tmp_path), "0.5"]) as jvm:
        note_jvm(home, jvm.pid, process_identity.start_of(jvm.pid))

        home.take()

        assert psutil.Process(jvm.pid).status() == psutil.STATUS_ZOMBIE
    home.release()


def test_a_java_that_got_the_process_id_of_an_earlier_jvm_does_not_hold_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with subprocess.Popen([java(tmp_path), "60"]) as stranger:
        note_jvm(home, stranger.pid, "of an earlier process with this id")

        home.take()
        taken = json.loads(home.holder.read_text(encoding="utf-8"))
        home.release()

        assert psutil.Process(stranger.pid).name() == "java"
        stranger.kill()
    assert taken["jvm_pid"] is None


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Have a process hold *folder* until SIGTERM, as a gateway does."""
    code = (
        "import signal, sys, time; from pathlib import Path; from mt_core.app.home import Home;"
        "home = Home(Path(sys.argv[1])); home.take();"
        "signal.signal(signal.SIGTERM, lambda *_: (home.release(), sys.exit(7)));"
        "print('held', flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def stop(folder: Path) -> Result:
    return CliRunner().invoke(app, ["gateway", "stop", "--home", str(folder)])


def test_the_gateway_of_a_home_is_stopped_and_its_end_is_waited_for(tmp_path: Path) -> None:
    with holding(tmp_path) as gateway:
        stopped = stop(tmp_path)

        assert (stopped.exit_code, gateway.wait(30)) == (0, 7)
    assert stopped.stdout == f"The gateway on {tmp_path} has stopped (process {gateway.pid}).\n"


@pytest.mark.parametrize("folder", ["home", "no/such/folder"])
def test_a_home_without_a_gateway_says_so_and_is_left_alone(tmp_path: Path, folder: str) -> None:
    (tmp_path / "home").mkdir()

    stopped = stop(tmp_path / folder)

    assert (stopped.exit_code, stopped.stderr) == (
        1,
        f"Error: No gateway runs on home folder {tmp_path / folder}; name another folder with --home.\n",
    )
    assert not (tmp_path / "no").exists()


def test_a_process_that_only_got_the_id_of_a_gateway_is_not_stopped(tmp_path: Path) -> None:
    with holding(tmp_path) as gateway, subprocess.Popen([java(tmp_path), "60"]) as stranger:
        noted = json.loads((tmp_path / "gateway.json").read_text(encoding="utf-8"))
        (tmp_path / "gateway.json").write_text(json.dumps(noted | {"pid": stranger.pid}), encoding="utf-8")

        stopped = stop(tmp_path)

        assert (stopped.exit_code, stranger.poll(), gateway.poll()) == (1, None, None)
        stranger.kill()
    assert "does not name the process that uses it; stop it yourself." in stopped.stderr


def test_a_home_whose_lock_cannot_be_opened_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "gateway.lock").mkdir()

    stopped = stop(tmp_path)

    assert stopped.exit_code == 1
    assert (
        stopped.stderr
        == f"Error: Home folder {tmp_path} cannot be used: Is a directory; choose another with --home.\n"
    )
