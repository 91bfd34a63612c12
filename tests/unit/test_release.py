"""deploy/release.py: what is refused, and what a release writes before it builds."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

from deploy.release import (
    RELEASED,
    ROOT,
    VERSIONED,
    ReleaseFailed,
    check,
    check_version,
    collate,
    publish,
    set_version,
)
from tests.releases.place import versions

RELEASES = "# Changelog\n\n## 0.9.0 (2026-12-01)\n\n### Added\n\n## 0.1.0 (2026-11-28)\n"
FRAGMENTS = {
    "7-words.added.md": "- Seven, see [words](../docs/words.md)\n  and more.\n- Eight.\n",
    "10-names.added.md": "A paragraph.\n",
    "8-hosts.security.md": "- Hosts.\n",
    "9-rows.fixed.md": "- Rows.\n",
}
COLLATED = """
## 0.2.0 (2026-12-24)

### Added

A paragraph.

- Seven, see [words](docs/words.md)
  and more.
- Eight.

### Fixed

- Rows.

### Security

- Hosts.
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def committed(folder: Path) -> Path:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clean checkout with the changelog and the settings of this one, and fragments of its own."""
    folder = tmp_path / "checkout"
    (folder / "changelog").mkdir(parents=True)
    for name in ("pyproject.toml", "changelog/README.md", "changelog/template.jinja", *VERSIONED):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n<!-- releases -->\n\n## 0.1.0 (2026-11-28)\n")
    for name, text in FRAGMENTS.items():
        (folder / "changelog" / name).write_text(text, encoding="utf-8")
    return committed(folder)


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3rc1", "1.02.3", "1.2.3\n", "next"])
def test_what_is_not_three_numbers_is_not_a_version(version: str) -> None:
    with pytest.raises(ReleaseFailed, match=r"is not a version; write three numbers, such as 0\.1\.0\."):
        check_version(version, RELEASES)


@pytest.mark.parametrize("version", ["0.9.0", "0.8.10", "0.0.1"])
def test_a_version_must_be_above_the_newest_of_the_changelog(version: str) -> None:
    with pytest.raises(ReleaseFailed, match=r"is not above 0\.9\.0, the newest release in CHANGELOG\.md\."):
        check_version(version, RELEASES)


@pytest.mark.parametrize("version", ["0.9.1", "0.10.0", "1.0.0"])
def test_versions_are_compared_by_their_numbers(version: str) -> None:
    check_version(version, RELEASES)


def test_the_first_release_may_have_any_version() -> None:
    check_version("0.0.1", "# Changelog\n")


@pytest.mark.parametrize("name", ["changelog/11-new.added.md", "CHANGELOG.md"])
def test_a_checkout_with_changes_is_refused_with_their_names(checkout: Path, name: str) -> None:
    with (checkout / name).open("a") as file:
        file.write("- New.\n")

    with pytest.raises(ReleaseFailed, match=rf"(?s)changes that are not committed.*{name}"):
        check("0.2.0", checkout, os.environ)


def test_a_checkout_without_fragments_has_nothing_to_release(checkout: Path) -> None:
    git(checkout, "rm", "--quiet", *(f"changelog/{name}" for name in FRAGMENTS))
    git(checkout, "commit", "--quiet", "--message", "Second")

    with pytest.raises(ReleaseFailed, match="nothing to release"):
        check("0.2.0", checkout, os.environ)


def test_a_machine_without_a_jdk_is_refused(checkout: Path) -> None:
    with pytest.raises(ReleaseFailed, match=r"There is no javac on this machine.* Install a JDK"):
        check("0.2.0", checkout, {"PATH": ""})


def test_the_fragments_become_a_section_by_kind_above_the_earlier_ones(checkout: Path) -> None:
    collate("0.2.0", date(2026, 12, 24), checkout)

    assert (checkout / "CHANGELOG.md").read_text(encoding="utf-8") == (
        f"# Changelog\n\n<!-- releases -->\n{COLLATED}\n## 0.1.0 (2026-11-28)\n"
    )
    assert sorted(path.name for path in (checkout / "changelog").iterdir()) == [
        "README.md",
        "template.jinja",
    ]


def test_a_fragment_of_no_kind_is_refused_with_its_name(checkout: Path) -> None:
    (checkout / "changelog" / "11-typing.improved.md").write_text("- Typing.\n")

    with pytest.raises(ReleaseFailed, match=r"11-typing\.improved\.md"):
        collate("0.2.0", date(2026, 12, 24), checkout)


def test_every_fragment_of_this_checkout_has_a_kind(checkout: Path) -> None:
    shutil.copytree(ROOT / "changelog", checkout / "changelog", dirs_exist_ok=True)

    collate("99.0.0", date(2026, 12, 24), checkout)

    assert (checkout / "CHANGELOG.md").read_text(encoding="utf-8").count("\n## ") == 2


def test_the_version_is_set_where_a_package_has_it(checkout: Path) -> None:
    (checkout / "docs").mkdir()
    (checkout / "docs" / "build.py").write_text(
        "import mt_core\nopen('page', 'w').write(mt_core.__version__)\n"
    )

    set_version("99.0.0", checkout)

    changed = [line for line in git(checkout, "diff", "-U0").splitlines() if line.startswith(("+", "-"))]
    assert [line for line in changed if line.startswith("+") and not line.startswith("+++")] == [
        '+version = "99.0.0"',
        '+__version__ = "99.0.0"',
    ]
    assert (checkout / "page").read_text() == "99.0.0"


def test_what_the_clone_changed_is_copied_and_git_stays_as_it_is(checkout: Path, tmp_path: Path) -> None:
    package = tmp_path / "freshtable-0.2.0.tar.gz"
    package.write_bytes(b"packed")
    git(tmp_path, "clone", "--quiet", str(checkout), "clone")
    collate("0.2.0", date(2026, 12, 24), tmp_path / "clone")
    before = git(checkout, "rev-parse", "HEAD")

    publish(tmp_path / "clone", checkout, [package])

    assert (checkout / "dist" / package.name).read_bytes() == b"packed"
    assert git(checkout, "status", "--porcelain").splitlines() == [
        " M CHANGELOG.md",
        *(f" D changelog/{name}" for name in sorted(FRAGMENTS)),
        "?? dist/",
    ]
    assert (git(checkout, "rev-parse", "HEAD"), git(checkout, "diff", "--cached")) == (before, "")


def test_a_checkout_that_was_changed_while_the_release_was_built_stays_as_it_is(
    checkout: Path, tmp_path: Path
) -> None:
    git(checkout, "clone", "--quiet", str(checkout), str(tmp_path / "clone"))
    (tmp_path / "clone" / "CHANGELOG.md").write_text("released")
    (checkout / "CHANGELOG.md").write_text("merged meanwhile")

    with pytest.raises(ReleaseFailed, match="was changed while the release was built"):
        publish(tmp_path / "clone", checkout, [])

    assert (checkout / "CHANGELOG.md").read_text() == "merged meanwhile"


def test_a_file_in_a_new_folder_is_published(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "clone", "--quiet", str(checkout), str(tmp_path / "clone"))
    (tmp_path / "clone" / "new").mkdir()
    (tmp_path / "clone" / "new" / "page.md").write_text("A page.")

    publish(tmp_path / "clone", checkout, [])

    assert (checkout / "new" / "page.md").read_text() == "A page."


def test_each_release_of_the_changelog_has_its_homes_for_the_tests_of_later_ones() -> None:
    released = RELEASED.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))

    assert set(versions()) == set(released)
