from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import psutil

from mt_core.app.home import Home


def test_a_java_that_got_the_process_id_of_an_earlier_jvm_does_not_hold_the_home(tmp_path: Path) -> None:
    program, sleep = tmp_path / "java", shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, program)
    home = Home(tmp_path / "home")
    home.folder.mkdir()
    with subprocess.Popen([program, "60"]) as stranger:
        noted = {"pid": 1, "url": None, "jvm_pid": stranger.pid, "jvm_started": "of an earlier process with this id"}
        home.holder.write_text(json.dumps(noted), encoding="utf-8")

        home.take()
        taken = json.loads(home.holder.read_text(encoding="utf-8"))
        home.release()

        assert psutil.Process(stranger.pid).name() == "java"
        stranger.kill()
    assert taken["jvm_pid"] is None
