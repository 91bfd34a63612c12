from __future__ import annotations

import re

from docs.build import ROOT
from mt_core.sessions.properties.flink_properties import WITHOUT_EFFECT


def test_the_page_lists_every_property_of_flink_without_effect_with_its_values_and_no_other() -> None:
    page = (ROOT / "docs" / "sql" / "properties.md").read_text(encoding="utf-8")
    section = page.partition("## Flink's properties without effect\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|`]+) \| (`.*) \|$", section, re.MULTILINE)

    listed = {key: form for form, keys in rows for key in re.findall(r"`([^`]+)`", keys)}

    assert listed == {key: form.name for key, form in WITHOUT_EFFECT.items()}
