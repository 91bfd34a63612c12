from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mt_core.errors import PluginError, RequestInvalid
from mt_core.jobs.installed import InstalledHooks
from mt_core.model.job import JobHook
from tests.support.recording_hook import RecordingHook


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, points: str, module: str) -> None:
    """Install a package with entry *points* in the group of hooks, and the text of a module rival_hook."""
    metadata = folder / "rival-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.4\nName: rival\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[mt_core.job_hooks]\n{points}\n")
    (folder / "rival_hook.py").write_text(module)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "rival_hook", raising=False)


def test_a_hook_of_a_plug_in_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "from tests.support.recording_hook import mt_job_status_hooks"
    install(tmp_path, monkeypatch, points="recording = rival_hook", module=module)
    hooks = InstalledHooks()

    attached = hooks.attached({"job.hooks": " recording ,recording", "job.hooks.recording.note": "n"})

    assert attached == (JobHook(name="recording", body={"note": "n"}),)
    assert isinstance(hooks.find("recording"), RecordingHook)
    assert hooks.find("recording") is hooks.find("recording")


@pytest.mark.parametrize(
    ("points", "module", "problem"),
    [
        ("other = rival_hook", "", "'recording' is not installed; installed hooks: other, own"),
        (
            "recording = rival_hook",
            "import nowhere_at_all",
            "cannot be imported: No module named 'nowhere_at_all'",
        ),
        ("recording = rival_hook", "", "offers 0 job status hooks named 'recording', not one"),
    ],
)
def test_a_hook_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: str, module: str, problem: str
) -> None:
    install(tmp_path, monkeypatch, points=points, module=module)
    hooks = InstalledHooks({"own": RecordingHook()})
    hooks.provide(OfTheGateway())

    with pytest.raises(PluginError) as found:
        hooks.find("recording")
    with pytest.raises(RequestInvalid, match=r"job\.hooks: "):
        hooks.attached({"job.hooks": "recording"})

    assert problem in str(found.value)


class OfTheGateway(RecordingHook):
    """A hook that no session attaches."""

    identifier = "of-the-gateway"


def test_a_job_has_no_hooks_unless_its_session_names_some() -> None:
    assert InstalledHooks().attached({}) == InstalledHooks().attached({"job.hooks": " "}) == ()
