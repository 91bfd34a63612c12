"""Headless Chromium that looks at the page, and notes whatever a person would not see.

A visit fails if the page wrote to the console, failed in a script, broke its Content-Security-Policy, asked
another host, or got an error that the test did not expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, expect, sync_playwright

from tests.installed_tools import tool

Theme = Literal["light", "dark"]
WIDE, PHONE = (1366, 900), (390, 844)
# Chromium's sandbox does not start as root, which CI runs as.
ARGUMENTS = ["--no-sandbox", "--force-color-profile=srgb", "--hide-scrollbars"]
WAIT_MS = 20_000
START_MS = 180_000
SERIOUS = {"serious", "critical"}


@dataclass
class Visit:
    """A page in a browser. `faults` lists what went wrong, in words.

    While it `is_cut_off`, requests fail, and the browser may say so in the console.
    """

    page: Page
    url: str
    expected: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    is_cut_off: bool = False

    def watch(self) -> None:
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("request", self._note_request)
        self.page.on("response", self._note_response)

    def open(self, path: str) -> Page:
        """Open a path of the gateway and return the page when it has loaded."""
        self.page.goto(self.url + path, wait_until="load")
        return self.page

    def expect(self, *statuses: int) -> None:
        """Allow answers with these statuses from now on."""
        self.expected |= set(statuses)

    def serious(self, *rules: str) -> list[str]:
        """Return in words what axe finds serious about the page as it is, by all rules or by *rules*."""
        options = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else None
        found = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in SERIOUS
        ]

    def cut_off(self) -> None:
        """Let every request fail from now on."""
        self.is_cut_off = True
        self.page.route("**/*", lambda route: route.abort())

    def connect(self) -> None:
        """Let requests reach the gateway again."""
        self.page.unroute("**/*")

    def is_wider_than_its_window(self) -> bool:
        """Return whether a person would have to scroll the page sideways."""
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        )

    def check(self) -> None:
        """Fail if anything went wrong so far."""
        assert self.faults == []

    def picture(self, file: Path, *, whole: bool = False) -> None:
        self.page.screenshot(path=file, full_page=whole, animations="disabled")

    def _note_console(self, message: ConsoleMessage) -> None:
        # Chromium itself writes about each status above 399; `_note_response` decides about these.
        if not message.text.startswith("Failed to load resource") and not self.is_cut_off:
            self.faults.append(f"console: {message.type}: {message.text}")

    def _note_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self.url:
            self.faults.append(f"request to another host: {request.url}")

    def _note_response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.faults.append(f"{response.status} {response.request.method} {response.url}")


@dataclass(frozen=True, slots=True)
class Visits:
    """A browser that makes visits."""

    browser: Browser

    @contextmanager
    def visit(
        self,
        url: str,
        *,
        theme: Theme = "light",
        size: tuple[int, int] = WIDE,
        scripts: bool = True,
        token: str = "",
        **options: Any,
    ) -> Iterator[Visit]:
        """Yield a visit to the gateway at *url*, with a profile of its own. It fails at its end if it must.

        With a *token*, the visitor has signed in.
        """
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            java_script_enabled=scripts,
            locale="en-GB",
            timezone_id="UTC",
            **options,
        )
        context.set_default_timeout(WAIT_MS)
        visit = Visit(context.new_page(), url.rstrip("/"))
        visit.watch()
        try:
            if token:
                page = visit.open("/ui/sign-in")
                page.get_by_label("Token").fill(token)
                page.get_by_role("button", name="Sign in").click()
                page.wait_for_url("**/ui/")
            yield visit
            visit.check()
        finally:
            context.close()


@contextmanager
def chromium() -> Iterator[Visits]:
    """Start Debian's Chromium; skip the test, or fail it in CI, if it is not installed."""
    program = tool("chromium")
    # Assertions wait as long as actions do: 5 seconds are not enough on a busy machine.
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=START_MS)
        try:
            yield Visits(browser)
        finally:
            browser.close()
