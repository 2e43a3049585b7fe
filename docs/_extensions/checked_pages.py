"""Fail a build whose pages do not hold together, or need a network.

Sphinx checks what it resolves itself. It does not look at raw HTML, at what a theme adds, at a link
into a page whose anchor went, or at what a browser would have to fetch from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

log = logging.getLogger(__name__)

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
OF_SCRIPTS = ["search.html"]  # a script writes its heading


@dataclass
class Page(HTMLParser):
    """What a page has and what it refers to."""

    text: str
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)
        if self.levels.count(1) != 1:
            self.faults.append(f"a page must have one heading h1, got {self.levels.count(1)}")
        for above, below in zip(self.levels, self.levels[1:], strict=False):
            if below > above + 1:
                self.faults.append(f"headings must not skip a level, got h{below} after h{above}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if LOADED.get(tag) in values:
            self.loaded.append(values[LOADED[tag]])
        if tag == "img" and "alt" not in values:  # it is empty where a picture only adorns
            self.faults.append(f"an image must have an alternative text, got {values.get('src')}")
        if tag in HEADINGS:
            self.levels.append(1 + HEADINGS.index(tag))


def check(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    root = Path(app.outdir)
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(root.rglob("*.html"))}
    for path, page in pages.items():
        if path.name in OF_SCRIPTS:
            continue
        faults = [*page.faults]
        faults += [fault for link in page.links if (fault := broken(path, link, pages))]
        for link in page.loaded:
            if urlsplit(link).scheme in ("http", "https") or link.startswith("//"):
                faults.append(f"a page must need no network, got {link}")
            elif not link.startswith("data:") and (fault := broken(path, link, pages)):
                faults.append(fault)
        for fault in dict.fromkeys(faults):
            log.warning("%s: %s", path.relative_to(root), fault)


def broken(path: Path, link: str, pages: dict[Path, Page]) -> str | None:
    """Return what is wrong with a link within the documentation."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return f"a link must lead to a file, got {link}"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return f"a link must lead to an anchor that is there, got {link}"
    return None


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
