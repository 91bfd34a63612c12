"""The generated pages are what docs/build.py makes of the code, and every error has a code of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from docs.build import ROOT, WAYS_OUT, error_classes, pages
from mt_core.config import SETTINGS
from mt_core.config.settings import Setting
from mt_core.errors import MtError
from scheduler_plugins import airflow, memory


@pytest.fixture(scope="module")
def generated() -> Mapping[Path, str]:
    """The generated pages as they are now."""
    return pages()


@pytest.mark.parametrize(
    "page",
    [
        "settings.md",
        "errors.md",
        "statuses.md",
        "metrics.md",
        "public-names.md",
        *(f"openapi/v{number}.json" for number in range(1, 5)),
        "openapi/freshtable-v1.json",
    ],
)
def test_a_generated_page_is_what_the_code_says_now(page: str, generated: Mapping[Path, str]) -> None:
    path = ROOT / "docs" / page

    written = path.read_text(encoding="utf-8")

    assert written == generated[path], f"{page} is out of date; run `make docs`."


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_every_setting_is_documented_with_its_environment_variable(setting: Setting) -> None:
    page = Path(ROOT / "docs" / "settings.md").read_text(encoding="utf-8")

    assert f"| `{setting.key}` |" in page
    assert f"`{setting.variable}`" in page


@pytest.mark.parametrize("plugin", [memory, airflow], ids=["memory", "airflow"])
def test_every_option_of_the_bundled_schedulers_is_documented(plugin: ModuleType) -> None:
    page = Path(ROOT / "docs" / "settings.md").read_text(encoding="utf-8")

    [scheduler] = plugin.mt_workflow_schedulers()

    for option in scheduler.options:
        assert f"| `workflow-scheduler.{scheduler.identifier}.{option.key}` |" in page


def test_every_error_has_a_code_of_its_own() -> None:
    codes = Counter(cls.code for cls in error_classes())

    assert {code: count for code, count in codes.items() if count > 1} == {}


def test_every_error_has_a_way_out_and_no_way_out_is_left_over() -> None:
    assert {cls.code for cls in error_classes()} == WAYS_OUT.keys()


@pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
def test_every_error_is_documented(cls: type[MtError]) -> None:
    page = Path(ROOT / "docs" / "errors.md").read_text(encoding="utf-8")

    assert f"| `{cls.code}` | {cls.http_status} |" in page
