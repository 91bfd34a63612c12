from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.errors import PluginError
from mt_core.testing.scheduler_workbench import TABLE, workflow
from mt_core.workflow.loader import load_scheduler
from mt_core.workflow.scheduler import WorkflowDescription, WorkflowState
from scheduler_plugins.memory.scheduler import MemoryScheduler

ASSETS = Path(__file__).parents[1] / "assets" / "third_party_scheduler"


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A third party's package, as if it were installed."""
    monkeypatch.syspath_prepend(str(ASSETS))
    yield
    sys.modules.pop("sundial_scheduler", None)


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, points: str, module: str = ""
) -> None:
    """Install the package *name*, with entry *points* in our group and the text of a module
    rival_scheduler.
    """
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[mt_core]\n{points}\n")
    (folder / "rival_scheduler.py").write_text(module)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "rival_scheduler", raising=False)


def test_the_memory_scheduler_is_found_by_its_installed_entry_point() -> None:
    assert load_scheduler("memory") is MemoryScheduler


@pytest.mark.usefixtures("third_party")
def test_a_third_party_scheduler_is_found_and_works() -> None:
    scheduler = load_scheduler("sundial")()

    handler = scheduler.create_refresh_workflow(workflow())

    assert (handler.scheduler, handler.workflow_id) == ("sundial", TABLE)
    assert scheduler.describe_refresh_workflows([handler]) == {
        TABLE: WorkflowDescription(state=WorkflowState.ACTIVE)
    }


@pytest.mark.usefixtures("third_party")
def test_a_scheduler_that_is_not_asked_for_is_not_imported() -> None:
    load_scheduler("memory")

    assert "sundial_scheduler" not in sys.modules


@pytest.mark.usefixtures("third_party")
def test_an_identifier_that_is_not_installed_names_those_that_are() -> None:
    with pytest.raises(PluginError, match=r"'hourglass' is not installed; installed: .*memory, .*sundial"):
        load_scheduler("hourglass")


@pytest.mark.usefixtures("third_party")
def test_two_plug_ins_with_one_identifier_are_refused_naming_both_and_importing_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, name="freshtable-rival", points="sundial = rival_scheduler")

    with pytest.raises(PluginError) as caught:
        load_scheduler("sundial")

    assert caught.value.message == (
        "workflow-scheduler.type 'sundial' is claimed by rival_scheduler (freshtable-rival) and "
        "sundial_scheduler (freshtable-sundial); uninstall one."
    )
    assert {"rival_scheduler", "sundial_scheduler"}.isdisjoint(sys.modules)


def test_a_rival_of_the_memory_scheduler_is_refused_naming_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, name="freshtable-rival", points="memory = rival_scheduler")

    with pytest.raises(
        PluginError, match=r"rival_scheduler \(freshtable-rival\) and scheduler_plugins.memory \(freshtable\)"
    ):
        load_scheduler("memory")


def test_a_plug_in_that_cannot_be_imported_is_named_with_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path,
        monkeypatch,
        name="freshtable-rival",
        points="rival = rival_scheduler",
        module="import absent_library",
    )

    with pytest.raises(
        PluginError, match=r"'rival' \(rival_scheduler\) cannot be imported: .*absent_library"
    ) as caught:
        load_scheduler("rival")

    assert isinstance(caught.value.__cause__, ImportError)


def test_a_plug_in_without_the_scheduler_it_promises_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, name="freshtable-rival", points="rival = rival_scheduler")

    with pytest.raises(
        PluginError, match="rival_scheduler offers 0 workflow schedulers named 'rival', not one"
    ):
        load_scheduler("rival")
