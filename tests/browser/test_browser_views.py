"""Every view in a real browser: complete, silent, for every role, in light, in dark and on a phone."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.browser.browser import PHONE, WIDE, Visits
from tests.browser.ledgers import ODD_NAME, ODD_QUERY
from tests.browser.views import ERRORS, PLAIN_VIEWS, SITUATIONS, TABLE_VIEWS, GatewayOf, table
from tests.depth import DEPTH

pytestmark = pytest.mark.processes


# The views that differ from others in more than words; a deep run looks at the others too.
DIFFERENT = {
    "tables": (
        *PLAIN_VIEWS,
        *("late", "failing", "continuous", "suspended", "odd", "initializing"),
        *("tables-no-match", "graph-late", "graph-of-source", "refresh-form", "verify-form"),
    ),
    "empty": ("tables", "graph-of-namespaces", "jobs", "sessions"),
    "starting": ("gateway", "sql"),
    "lost": ("tables", "late"),
    "reader": ("sql", "late", "refresh-form"),
}


def views(situation: str) -> Collection[str]:
    every = SITUATIONS[situation].views
    return every if DEPTH > 1 else DIFFERENT.get(situation, every)


@pytest.mark.parametrize(("situation", "view"), [(name, view) for name in SITUATIONS for view in views(name)])
def test_a_view_reads_well_for_everybody(
    visits: Visits, gateway_of: GatewayOf, situation: str, view: str
) -> None:
    chosen = SITUATIONS[situation]
    with visits.visit(gateway_of(situation).url, token=chosen.token) as visit:
        if chosen.token:
            visit.expect(403)
        page = visit.open(chosen.views[view])
        page.wait_for_load_state("networkidle")

        assert page.locator("h1").count() == 1
        assert page.locator("h1").inner_text().strip()
        assert page.title().endswith(" · Freshtable")
        assert not visit.is_wider_than_its_window()
        assert visit.serious() == []
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        assert not visit.is_wider_than_its_window()
        assert visit.serious("color-contrast", "target-size", "scrollable-region-focusable") == []


@pytest.mark.parametrize("view", ERRORS)
def test_an_error_is_a_page_with_a_way_out(visits: Visits, gateway_of: GatewayOf, view: str) -> None:
    with visits.visit(gateway_of("tables").url) as visit:
        visit.expect(400, 404)
        page = visit.open(ERRORS[view])

        assert len(page.locator("main").inner_text()) > 40
        page.get_by_role("link", name="All tables").click()
        assert page.locator("h1").inner_text() == "Tables"


@pytest.mark.parametrize("view", ["tables", "late", "graph-late", "jobs", "gateway", "sql", "refresh-form"])
def test_a_view_reads_without_scripts(visits: Visits, gateway_of: GatewayOf, view: str) -> None:
    with visits.visit(gateway_of("tables").url, scripts=False) as visit:
        page = visit.open(SITUATIONS["tables"].views[view])

        assert page.locator("h1").is_visible()
        assert page.locator(".needs-script:visible").count() == 0


def test_names_and_queries_with_markup_are_text_everywhere(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("tables").url) as visit:
        for path in ("/ui/", "/ui/graph?of=lake.shop.orders", "/ui/jobs", TABLE_VIEWS["odd"]):
            page = visit.open(path)
            page.wait_for_load_state("networkidle")
            assert page.locator("script:not([src])").count() == 0
            assert page.locator("i", has_text="eve").count() == 0
        assert ODD_NAME in page.locator("h1").inner_text()
        assert (page.locator("pre.sql").first.text_content() or "").strip() == ODD_QUERY


def test_the_name_of_a_table_is_a_link_to_it(visits: Visits, gateway_of: GatewayOf) -> None:
    for scripts in (True, False):
        with visits.visit(gateway_of("tables").url, scripts=scripts) as visit:
            page = visit.open("/ui/")
            page.get_by_role("link", name="lake.shop.revenue").first.click()
            page.wait_for_url(f"**{table('revenue')}*")

            assert page.locator("h1").inner_text().startswith("revenue")


def test_a_visitor_who_may_only_read_is_offered_nothing_else(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("reader").url, token="lesen") as visit:
        page = visit.open(table("revenue"))

        assert page.get_by_role("link", name="Refresh", exact=True).count() == 0
        assert page.get_by_role("link", name="Suspend").count() == 0


def test_ten_thousand_tables_are_read_a_hundred_at_a_time(visits: Visits, gateway_of: GatewayOf) -> None:
    with visits.visit(gateway_of("many").url, size=WIDE) as visit:
        page = visit.open("/ui/?sort=name")
        rows = page.locator("#rows tbody tr")
        assert rows.count() == 100
        for begin in (200, 300, 400, 500):
            page.locator("#rows .pager.after").scroll_into_view_if_needed()
            page.get_by_text(f" to {begin} of 10,000").wait_for()
            assert rows.count() <= 300

        names = rows.locator("a.row").all_inner_texts()
        assert names == sorted(names)
        assert names[-1] == "lake.ns0.t04990"
