"""What is wrong with a folder of HTML pages: dead links, a network, headings, pictures."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"iframe": "src", "img": "src", "link": "href", "script": "src", "source": "src"}
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
HEADLESS = ["search.html"]  # a script writes its heading


class Page(HTMLParser):
    """What a page has and what it refers to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.levels: list[int] = []
        self.undescribed: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values:
            self.loaded.append(values[LOADED[tag]])
        if tag == "img" and "alt" not in values:  # it is empty where a picture only adorns
            self.undescribed.append(values.get("src", ""))
        if tag in HEADINGS:
            self.levels.append(1 + HEADINGS.index(tag))

    def faults(self, pages: dict[Path, Page]) -> Iterator[str]:
        """Yield what is wrong with the page among ``pages``."""
        if self.path.name not in HEADLESS and self.levels.count(1) != 1:
            yield f"a page must have one heading h1, got {self.levels.count(1)}"
        for above, below in pairwise(self.levels):
            if below > above + 1:
                yield f"headings must not skip a level, got h{below} after h{above}"
        for source in self.undescribed:
            yield f"an image must have an alternative text, got none for {source}"
        for link in self.loaded:
            if urlsplit(link).netloc:
                yield f"a page must need no network, got {link}"
        for link in (*self.links, *self.loaded):
            yield from self._dead(link, pages)

    def _dead(self, link: str, pages: dict[Path, Page]) -> Iterator[str]:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return
        target = (self.path.parent / unquote(parts.path)).resolve() if parts.path else self.path
        anchor = unquote(parts.fragment)
        if not target.is_file():
            yield f"a link must lead to a file, got {link}"
        elif anchor and target in pages and anchor not in pages[target].anchors:
            yield f"a link must lead to an anchor that is there, got {link}"


def faults(folder: Path) -> list[str]:
    """Return what is wrong with the pages in ``folder``, each fault of a page once."""
    pages = {path: Page(path) for path in sorted(folder.resolve().rglob("*.html"))}
    return [
        f"{path.relative_to(folder.resolve())}: {fault}"
        for path, page in pages.items()
        for fault in dict.fromkeys(page.faults(pages))
    ]
