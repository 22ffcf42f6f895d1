"""Sphinx builds these pages: make docs. The table of contents is made of the links in index.md, by section."""
# ruff: noqa: INP001

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "git-swarm"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "schemas"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "git-swarm"
html_show_copyright = False
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "text"

_DOCS = Path(__file__).resolve().parent
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>(?![a-z]+:|#)[^)\s]+)\)")
_PAGE = re.compile(r"(?<=\]\()[\w/-]+(?=\.md)")


def _adapt(_app: Sphinx, name: str, source: list[str]) -> None:
    """Names files that are no pages in place of a link, and adds a hidden table of contents to the index."""
    folder = (_DOCS / name).parent

    def plain(link: re.Match[str]) -> str:
        target = (folder / link["target"].partition("#")[0]).resolve()
        if target.is_relative_to(_DOCS) and not target.is_dir():
            return link[0]
        return f"{link['text']} (`{target.relative_to(_DOCS.parent)}`)"

    source[0] = _LINK.sub(plain, source[0])
    if name != "index":
        return
    sections = re.split(r"(?m)^(?=## )", source[0])
    for number, section in enumerate(sections[1:], 1):
        caption = section.partition("\n")[0].removeprefix("## ")
        sections[number] = section + _toctree(caption, _PAGE.findall(section))
    decisions = [f"decisions/{page.stem}" for page in sorted(_DOCS.glob("decisions/*.md"))]
    source[0] = "".join(sections) + _toctree("Decisions", decisions)


def _toctree(caption: str, pages: Iterable[str]) -> str:
    listed = "\n".join(dict.fromkeys(pages))
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", _adapt)
