"""The SQL view of the page as a browser without JavaScript sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from tests.support.html_document import Element, document_of


def raw(element: Element) -> str:
    """Return the text of an element with its white space."""
    return "".join(each if isinstance(each, str) else raw(each) for each in element.nodes)


class SqlPage:
    """A visitor's browser at the SQL view. It follows redirections, and keeps the page that it got last."""

    def __init__(self, url: str, **headers: str) -> None:
        self.http = httpx.Client(base_url=url, headers=headers, follow_redirects=True, timeout=60)
        self.status, self.address, self.page = 0, "", Element("", {})

    def open(self, path: str = "/ui/sql", **query: Any) -> Element:
        """Open a page."""
        return self._see(self.http.get(path, params=query))

    def run(self, text: str) -> Element:
        """Type *text* into the editor of the page and press its button."""
        form = self.page.one("form", id="editor")
        return self.send(form, statement=text)

    def send(self, form: Element, **fields: str) -> Element:
        """Send a form, with *fields* in place of its own."""
        own = {each.attributes["name"]: each.attributes["value"] for each in form.every("input")}
        return self._see(self.http.post(form.attributes["action"], data={**own, **fields}))

    def follow(self, link: Element) -> Element:
        return self._see(self.http.get(link.attributes["href"]))

    def reload(self) -> Element:
        return self._see(self.http.get(self.address))

    def until(self, seen: Callable[[Element], object]) -> Element:
        """Reload the page until *seen* holds for it."""
        for _ in range(400):
            if seen(self.page):
                return self.page
            self.reload()
        raise AssertionError(self.shown.text)

    @property
    def shown(self) -> Element:
        """What the page shows of the statements."""
        return self.page.one("section", id="run")

    @property
    def outcomes(self) -> list[str]:
        """The word for each statement of the list, or for the only one."""
        listed = self.shown.every("ol", class_="statements") or [self.shown]
        return [each.text.partition(" ")[2] for each in listed[0].every(class_="outcome")]

    @property
    def headings(self) -> list[str]:
        return [each.text for each in self.shown.every("th")[1:]]

    @property
    def rows(self) -> list[list[str]]:
        """The rows of the table, each with its number."""
        return self.shown.rows()

    @property
    def trouble(self) -> list[str]:
        """The paragraphs about an error."""
        return [each.text for each in self.shown.one(class_="trouble").every("p")]

    def _see(self, answer: httpx.Response) -> Element:
        self.status, self.address = answer.status_code, str(answer.url)
        self.page = document_of(answer.text)
        return self.page
