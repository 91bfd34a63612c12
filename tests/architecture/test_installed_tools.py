"""Tests that need programs of the machine run where these are installed, and CI omits none of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import installed_tools
from tests.installed_tools import main, not_run, tool

APT = """#!/bin/sh
echo "$@" >> "{folder}/asked"
[ -x "{folder}/policy-rc.d" ] && "{folder}/policy-rc.d" || echo "services: $?" >> "{folder}/asked"
case "$*" in *install*) for program in promtool prometheus chromium; do
  printf '#!/bin/sh\\n' > "{folder}/$program"; /bin/chmod +x "{folder}/$program"
done;; esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found, with apt's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(installed_tools.REQUIRED, raising=False)
    monkeypatch.setattr(installed_tools, "SERVICE_POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(installed_tools, "STORE_VENV", tmp_path / "store")
    add(tmp_path, "apt-get", APT.format(folder=tmp_path))
    add(tmp_path, "update-rc.d", f'#!/bin/sh\necho "$@" >> "{tmp_path}/asked"\n')
    return tmp_path


def add(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    program = folder / name
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    return program


def test_a_test_gets_the_path_of_its_tool(programs: Path) -> None:
    promtool = add(programs, "promtool")

    assert tool("promtool") == str(promtool)


def test_a_test_whose_tool_is_missing_is_skipped_with_the_command(programs: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"promtool is not installed: .* prometheus$"):
        tool("promtool")


def test_a_test_whose_tool_is_missing_fails_where_tools_are_required(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(installed_tools.REQUIRED, "1")

    with pytest.raises(pytest.fail.Exception, match="chromium is not installed"):
        tool("chromium")


def test_the_program_of_the_object_store_is_in_its_own_environment(programs: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="weed is not installed: make object-store"):
        tool("weed")
    (programs / "store" / "bin").mkdir(parents=True)
    weed = add(programs / "store" / "bin", "weed")

    assert tool("weed") == str(weed)


def test_one_line_says_what_is_not_tested(programs: Path) -> None:
    add(programs, "promtool")
    add(programs, "prometheus")

    line = not_run()
    add(programs, "chromium")
    without_store = not_run()
    (programs / "store" / "bin").mkdir(parents=True)
    add(programs / "store" / "bin", "weed")

    assert line == (
        "Not tested here: the page in a browser; catalogs, tables and checkpoints on an object store. "
        "On Debian: apt-get update && apt-get install --no-install-recommends chromium; "
        "for the object store: make object-store"
    )
    assert without_store == (
        "Not tested here: catalogs, tables and checkpoints on an object store. "
        "For the object store: make object-store"
    )
    assert not_run() == ""


def test_root_on_debian_installs_what_is_missing_and_starts_no_service(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(installed_tools, "DEBIAN", programs)

    codes = [main(), main()]

    assert codes == [0, 0]
    assert (programs / "asked").read_text().splitlines() == [
        "--quiet --yes -o Acquire::Retries=3 update",
        "services: 101",
        "--quiet --yes -o Acquire::Retries=3 install --no-install-recommends prometheus chromium",
        "services: 101",
        "prometheus disable",
    ]
    assert not (programs / "policy-rc.d").exists()


@pytest.mark.parametrize(("user", "debian"), [(1000, True), (0, False)])
def test_others_are_told_the_command(
    user: int,
    debian: bool,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(installed_tools, "DEBIAN", programs / ("" if debian else "none"))

    code = main()

    assert code == 1
    assert capsys.readouterr().err == (
        "CI needs prometheus and chromium; as root: "
        "apt-get update && apt-get install --no-install-recommends prometheus chromium\n"
    )
    assert not (programs / "asked").exists()
