"""HTML as a tree of elements, for tests of pages. It refuses HTML that a browser would have to repair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
# Elements of SVG that the templates close themselves.
_CLOSED = frozenset({"circle", "line", "path", "polygon", "polyline", "rect", "use"})


@dataclass(eq=False)
class Element:
    """An element with its attributes; `nodes` are its elements and texts in their order."""

    tag: str
    attributes: dict[str, str]
    nodes: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the element, with single spaces between words."""
        return " ".join(self._raw().split())

    @property
    def classes(self) -> frozenset[str]:
        return frozenset(self.attributes.get("class", "").split())

    def every(self, tag: str | None = None, class_: str | None = None, **attributes: str) -> list[Element]:
        """Return the elements inside with this tag, class and attributes, in their order.

        An underscore in the name of an attribute stands for a hyphen.
        """
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            each
            for each in self._inside()
            if tag in (None, each.tag)
            and (class_ is None or class_ in each.classes)
            and all(each.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str | None = None, class_: str | None = None, **attributes: str) -> Element:
        """Return the only element inside that `every` finds."""
        found = self.every(tag, class_, **attributes)
        assert len(found) == 1, f"{len(found)} elements {tag} {class_} {attributes} in {self.text[:500]}"
        return found[0]

    def facts(self) -> dict[str, str]:
        """Return the pairs of all lists `<dl>` inside."""
        names, values = self.every("dt"), self.every("dd")
        return {name.text: value.text for name, value in zip(names, values, strict=True)}

    def rows(self) -> list[list[str]]:
        """Return the texts of the cells of all tables inside, without their heads."""
        rows = (row for body in self.every("tbody") for row in body.every("tr"))
        return [[cell.text for cell in row._inside() if cell.tag in ("td", "th")] for row in rows]

    def _inside(self) -> Iterator[Element]:
        for node in self.nodes:
            if isinstance(node, Element):
                yield node
                yield from node._inside()

    def _raw(self) -> str:
        return "".join(node if isinstance(node, str) else node._raw() for node in self.nodes)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].nodes.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _CLOSED or tag in _VOID, f"<{tag}/> is not closed in HTML"
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].nodes.append(data)


def document_of(html: str) -> Element:
    """Return the tree of *html*; all elements must be closed, and ids must be unique."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    [root] = parser.open
    ids = [each.attributes["id"] for each in root.every() if "id" in each.attributes]
    assert len(ids) == len(set(ids)), f"ids are not unique: {sorted(ids)}"
    return root
