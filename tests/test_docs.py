"""README and docs: links lead somewhere, generated pages are current, the index has all pages, words are common."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest
import yaml

from docs import generate
from gitswarm.cli.candidates import config_keys
from gitswarm.resources import bundled
from gitswarm.settings import CONFIG_FILE, load_config
from gitswarm.specs.library import load_library
from tests.documents import ROOT, SHELL, Document, documents

README = Document(ROOT / "README.md")
DOCS = ROOT / "docs"
PAGES = [
    README,
    *map(
        Document,
        (*(DOCS / f"{name}.md" for name in ("tutorial", "runbook", "flows")), *sorted((DOCS / "howto").glob("*.md"))),
    ),
]
"""Those whose shell examples are executed."""

DOCUMENTS = documents()
OF_EXAMPLES = (
    "docs/_build",
    "docs/x.md",
    "tests/test_till.py",
    "tests/test_shop.py",
    "tests/test_a.py",
    "tests/test_x.py",
)
NO_WORDS = re.compile(
    r"\b(go(?:es|ing)? on|went on|take[sn]? back|took back|taking back|lies?|play(?:ed|s)|comes? to|came to|papers?"
    r"|said|told)\b",
    re.IGNORECASE,
)


def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading() -> None:
    broken = []
    for page in DOCUMENTS:
        for number, target in page.links():
            name, _hash, anchor = target.partition("#")
            found = (page.path.parent / name).resolve() if name else page.path
            if not found.exists() or (anchor and found.suffix == ".md" and anchor not in Document(found).anchors()):
                broken.append(f"{page.name}:{number}: {target}")
    assert broken == []


def test_every_file_of_ours_that_a_page_names_exists() -> None:
    stale = [
        f"{page.name}:{number}: {name}"
        for page in DOCUMENTS
        if page.path.parent.name != "decisions" and page.path.name != "changelog.md"
        for number, line in enumerate(page.text.splitlines(), 1)
        for name in re.findall(r"`((?:gitswarm|tests|docs|benchmarks|flows|hooks)/[\w/.-]+\w)`", line)
        if not (ROOT / name).exists() and name not in OF_EXAMPLES
    ]
    assert stale == []


def test_every_page_is_in_the_index() -> None:
    index = Document(ROOT / "docs" / "index.md")
    linked = {(index.path.parent / target.partition("#")[0]).resolve() for _line, target in index.links()}
    assert [page.name for page in DOCUMENTS if page.path.parent.name != "decisions" and page.path not in linked] == [
        "docs/index.md"
    ]


def test_the_readme_can_be_read_in_one_go() -> None:
    assert len(README.text.splitlines()) <= 150


@pytest.mark.parametrize("name", generate.PAGES)
def test_generated_pages_are_current(name: str) -> None:
    """`make docs` writes them."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == generate.PAGES[name]()


def test_the_documented_configuration_is_one() -> None:
    """Of `docs/reference/config.yaml`: every key exists and is there, but for those of engines (docs/engines.md)."""
    text = (ROOT / generate.SAMPLE).read_text(encoding="utf-8")
    config = load_config(text, {})
    sample = yaml.safe_load(text)
    assert set(sample) == set(config.__struct_fields__), CONFIG_FILE
    paths = [key.split(".") for key in config_keys() if not key.startswith("engines.")]
    assert [path for path in paths if path[0] not in sample or (path[1:] and path[1] not in sample[path[0]])] == []


def test_every_shell_example_is_executed_or_says_why_not() -> None:
    unknown = [
        f"{page.name}:{block.line}"
        for page in PAGES
        for block in page.blocks()
        if block.language in SHELL and not block.notes.get("skip") and block.session < 0
    ]
    assert unknown == []


def test_every_block_of_yaml_and_json_can_be_read() -> None:
    broken = []
    for page in DOCUMENTS:
        for block in page.blocks():
            try:
                if block.language in ("yaml", "json"):
                    yaml.safe_load("\n".join(block.lines))
            except yaml.YAMLError as error:
                broken.append(f"{page.name}:{block.line}: {error}")
    assert broken == []


def test_flows_and_stations_in_the_docs_are_valid() -> None:
    """Without a run, so all of them: each page for itself, as its reader has them."""
    checked = 0
    for page in DOCUMENTS:
        blocks = [block for block in page.blocks() if ".swarm/flows/" in block.notes.get("file", "")]
        for session in {block.session for block in blocks}:
            texts = {each.notes["file"]: "\n".join(each.lines) for each in blocks if each.session == session}
            library = load_library(bundled("flows"), texts)
            for path in map(PurePosixPath, texts):
                checked += 1
                if path.stem != "wrong":  # shows what a mistake looks like
                    (library.station if path.parent.name == "stations" else library.flow)(path.stem)
    assert checked > 10


def test_every_file_of_an_example_has_a_visible_name() -> None:
    """In its first line, or in the text before it: the comment that tests read is invisible."""
    unnamed = []
    for page in PAGES:
        lines = page.text.splitlines()
        for block in page.blocks():
            name = block.notes.get("file", "")
            if name not in block.lines[0] and name not in "\n".join(lines[max(block.line - 8, 0) : block.line - 4]):
                unnamed.append(f"{page.name}:{block.line}: {name}")
    assert unnamed == []


def test_no_example_shows_the_machine_on_which_it_was_made() -> None:
    shown = [(page.name, line) for page in PAGES for block in page.blocks() for line in block.lines]
    assert [(name, line) for name, line in shown if re.search(r"site-packages|/(root|tmp|dev/shm)/", line)] == []


def test_docs_use_the_words_of_the_field() -> None:
    """Resume, undo, next, kept: docs/glossary.md."""
    found = [
        f"{page.name}:{number}: {match[0]}"
        for page in DOCUMENTS
        if page.path.parent.name != "decisions"
        for number, line in enumerate(page.prose(), 1)
        for match in NO_WORDS.finditer(line)
    ]
    assert found == []


def test_the_picture_is_a_terminal_of_a_run() -> None:
    picture = (ROOT / "docs" / "images" / "session.svg").read_text(encoding="utf-8")
    assert "git&#160;swarm&#160;" in picture
    assert Path(ROOT / "docs" / "picture.py").is_file()
