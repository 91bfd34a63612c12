from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import psutil

from mt_core.app import process_identity
from mt_core.app.home import Home


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
