"""What is wrong with a folder of HTML pages.

Looked at are links, what needs a network, headings, pictures, private names and the search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"iframe": "src", "img": "src", "link": "href", "script": "src", "source": "src"}
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
HEADLESS = ["search.html"]  # a script writes its heading
EMPTY = ["br", "col", "hr", "img", "input", "link", "meta", "path", "source", "use", "wbr"]
UNREAD = ["script", "style"]
# Names of ours that begin with an underscore; not protocols, which end with one, too, and not those
# behind "self.", of classes that a page shows how to write.
PRIVATE = re.compile(r"(?<![\w/])(?<!torch\.)(?<!os\.)(?<!self\.)_[A-Za-z]\w*\b(?<!_)")
# The sources, the page for those who change them, and the page on files of another library.
WITH_PRIVATE_NAMES = ["_modules", "contributing.html", "migration.html"]
SEARCHED = ["radon", "nufft", "tv", "wavelet"]


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
        self.text = ""
        self._unread: list[bool] = []  # of each element that is open
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
        if tag not in EMPTY:
            self._unread.append(tag in UNREAD or "math" in values.get("class", "").split())

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY and self._unread:
            self._unread.pop()

    def handle_data(self, data: str) -> None:
        if not any(self._unread):
            self.text += data

    def faults(self, pages: dict[Path, Page]) -> Iterator[str]:
        """Yield what is wrong with the page among ``pages``."""
        if self.path.name not in HEADLESS and self.levels.count(1) != 1:
            yield f"a page must have one heading h1, got {self.levels.count(1)}"
        for above, below in pairwise(self.levels):
            if below > above + 1:
                yield f"headings must not skip a level, got h{below} after h{above}"
        if not {*self.path.parts} & {*WITH_PRIVATE_NAMES}:
            for name in PRIVATE.findall(self.text):
                yield f"a page must not show private names, got {name}"
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


def not_found(index: Path) -> list[str]:
    """Return those of the words that users look for that the search does not find."""
    _, _, arguments = index.read_text("utf-8").partition("(")
    found = json.loads(arguments.rstrip(";\n").removesuffix(")"))
    return [w for w in SEARCHED if w not in found["terms"] and w not in found["titleterms"]]
