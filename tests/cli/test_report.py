"""`report`: what a reviewer reads of a run, in three formats, whatever agents wrote."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from gitswarm.cli.report_model import (
    CostLine,
    OffPath,
    OpenQuestion,
    Proof,
    Refusal,
    ReportedChanges,
    ReportedClaim,
    ReportedCosts,
    ReportedCriterion,
    ReportedFile,
    ReportVerdict,
    RunReport,
    SaidOfWork,
    Unproven,
)
from gitswarm.web.rendering import MOST_CHARS, markdown_of, sections_of
from tests.cli.test_reading import Shelf, make_shelf
from tests.conftest import Project
from tests.corpus.ask import Corpus
from tests.golden import check_golden
from tests.projects import ask, new_project

GOLDEN = Path(__file__).parent / "golden"

FLOW = """\
id: work
steps:
  - {id: plan, station: test-strategist, teaching: {outputs: ["plan/ac_matrix.json"]}}
  - {id: implement, station: code-implementer}
  - {id: test, engine: command, command: {run: "echo 1 passed"}, tests: true}
  - {id: self_review, station: self-reviewer}
"""
MATRIX = {
    "requirements": [
        {"id": "R-1", "description": "d", "acceptance_criteria": [{"id": "AC-1", "criterion": "It | <b>answers</b>"}]}
    ]
}
ASSUMED = {"statement": "nobody calls it twice", "impact_if_wrong": "it answers twice"}
SCRIPT: dict[str, Any] = {
    "default": {"status": "VERIFIED", "summary": "fine"},
    "steps": {
        "plan": {"write": {"RUN_BASE/plan/ac_matrix.json": json.dumps(MATRIX)}},
        "implement": {
            "write": {
                "src/app.py": "print('hi')\n",
                "pyproject.toml": "[project]\nname = 'x'\n",
                ".github/workflows/ci.yml": "on: push\n",
            },
            "envelope": {
                "status": "VERIFIED",
                "summary": "Answers with a greeting, as the task asks.",
                "assumptions": [ASSUMED],
                "file_changes": [{"path": "src/nowhere.py", "change": "added"}],
            },
            "cost_usd": 0.25,
            "tokens": {"prompt": 1000, "completion": 200},
        },
        "self_review": {"status": "VERIFIED", "summary": "The greeting is all there is."},
    },
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """With a run that changed what is sensitive, and said what is not so."""
    made = new_project(tmp_path_factory.mktemp("report"))
    made.commit({".swarm/flows/work.yaml": FLOW}, "the flow")
    script = made.script(json.dumps(SCRIPT))
    ask(made, "start", "work", "-m", "Add an answer\n\nIt greets.", "--autopilot", "--allow-stub", "--script", script)
    return made


@pytest.fixture(scope="module")
def said(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(project, "report", "--format", "json").stdout)
    return found


def test_the_verdict_names_what_is_not_proven(said: dict[str, Any]) -> None:
    assert said["verdict"]["state"] == "not proven"
    doubts = {(each["kind"], each["about"]) for each in said["verdict"]["unproven"]}
    wanted = {
        ("blocking", "protected_path@work/implement"),
        ("blocking", "file_changes_mismatch@work/implement"),
        ("criterion", "AC-1"),
    }
    assert wanted <= doubts, doubts


def test_sensitive_paths_come_first_with_their_reasons(said: dict[str, Any]) -> None:
    first = {file["path"]: file["reasons"] for file in said["changes"]["files"]}
    assert next(iter(first)) == ".github/workflows/ci.yml"
    assert first[".github/workflows/ci.yml"][:1] == ["continuous integration"]
    assert "open: protected_path@work/implement" in first[".github/workflows/ci.yml"]
    assert "dependencies" in first["pyproject.toml"]
    assert first["src/app.py"] == []


def test_claims_stand_beside_what_was_found(said: dict[str, Any]) -> None:
    flags = {each["flag"]: each for each in said["claims"]}
    assert flags["file_changes_mismatch"]["outcome"] == "open"
    assert "src/nowhere.py" in flags["file_changes_mismatch"]["said"]
    assert flags["status"]["said"] == "VERIFIED"


def test_what_was_assumed_and_what_was_paid(project: Project, said: dict[str, Any]) -> None:
    assert ("assumption", ASSUMED["statement"]) in {(each["kind"], each["text"]) for each in said["questions"]}
    status = project.json("status")
    lines = said["costs"]["flows"] + said["costs"]["beside"]
    assert sum(line["tokens"] for line in lines) == status["tokens"] == said["verdict"]["tokens"] > 0
    assert sum(line["cost_usd"] for line in lines) == pytest.approx(status["cost_usd"])


def test_each_proof_is_a_command_that_works(project: Project, said: dict[str, Any]) -> None:
    commands = [each["command"] for each in said["proofs"]]
    assert commands[0] == f"git swarm verify {said['name']}"
    assert any(line.endswith("&& echo 1 passed") for line in commands)
    assert ask(project, *commands[0].split()[2:]).code == 0
    assert "src/app.py" in project.git(*commands[1].split(" -- ")[0].split()[1:], "--stat")


def test_the_work_is_told_by_those_who_changed_code(said: dict[str, Any]) -> None:
    assert [each["summary"] for each in said["work"]] == ["Answers with a greeting, as the task asks."]


def test_tests_are_part_of_the_work(project: Project) -> None:
    steps = "[{id: author_tests, station: test-author}, {id: implement, station: code-implementer}]"
    project.commit({".swarm/flows/two.yaml": f"id: two\nsteps: {steps}\n"})
    wrote = {"author_tests": "tests/test_one.py", "implement": "src/one.py"}
    script = {"steps": {name: {"write": {path: "x = 1\n"}, "summary": name} for name, path in wrote.items()}}
    run = project.start(json.dumps(script), flow="two")
    work = json.loads(project.swarm("report", run, "--format", "json").stdout)["work"]
    project.swarm("discard", run)
    assert [each["step"] for each in work] == ["two/author_tests", "two/implement"]


def test_the_schema_knows_it(said: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/schemas/report.json").read_text(encoding="utf-8"))
    assert set(schema["required"]) == set(said)


def test_an_unknown_format_is_refused(project: Project) -> None:
    answer = ask(project, "report", "--format", "pdf")
    assert (answer.code, answer.stdout) == (2, "")
    assert "md, html, json" in answer.stderr


def test_runs_of_an_earlier_version_have_one(tmp_path: Path) -> None:
    stored = Corpus.unpacked((Path(__file__).parents[1] / "corpus/format-1.tar.gz").read_bytes(), tmp_path / "old")
    for run in stored.runs():
        for words in (["report", run], ["report", run, "--format", "html"], ["cost", run]):
            assert stored.swarm(*words).strip()


# --- whole pages ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return make_shelf(tmp_path_factory.mktemp("reports"))


def test_a_whole_report(shelf: Shelf) -> None:
    text = shelf.shown("report", shelf.run)
    check_golden(GOLDEN / "report.md", re.sub(r"\b\d+m\d\ds\b", "0ms", text))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_is_the_same_in_every_terminal(shelf: Shelf, width: int) -> None:
    """What is pasted somewhere has no lines broken for a screen."""
    narrow = replace(shelf.project, env={**shelf.project.env, "COLUMNS": str(width)})
    assert ask(narrow, "report", shelf.run).stdout == ask(shelf.project, "report", shelf.run).stdout


# --- what agents may write --------------------------------------------------------------------------------------


def a_report(text: str, rows: int = 1) -> RunReport:
    """In which `text` stands wherever agents can bring it."""
    return RunReport(
        run_id="run-20260101-000000-abcdef",
        name="abcdef",
        task=text,
        flows=("build",),
        base="b" * 40,
        tip="e" * 40,
        branch="shadow/run-20260101-000000-abcdef",
        verdict=ReportVerdict(
            "not proven", text, 3, 1000, 10, 0.5, None, None, (Unproven("blocking", text, text),) * rows
        ),
        work=(SaidOfWork("build/implement@2", text),) * rows,
        changes=ReportedChanges(
            1,
            2,
            (ReportedFile(text, "added", 1, 2, (text,)), ReportedFile(f"{text} ", "added", None, None, ())) * rows,
        ),
        criteria=(ReportedCriterion(text, text, "proven", text, (text, text), 3, current=True),) * rows,
        claims=(ReportedClaim("build/implement", 3, text, text, text, "open"),) * rows,
        refusals=(Refusal("build/implement", 3, "Bash", text, text),) * rows,
        off_path=(OffPath("build/implement", 3, text, "navigator", text),) * rows,
        questions=(OpenQuestion("assumption", "build/implement", text, text),) * rows,
        costs=ReportedCosts((CostLine("build", 1, 10, 20, 0.5),), (CostLine(text, 1, 10, 20, None),) * rows, ()),
        proofs=(Proof(text, text, text),) * rows,
    )


HOSTILE = [
    "</td></tr></table></code></pre><script>alert(1)</script>",
    "<img src=x onerror=alert(1)> <!-- ",
    "a | b | c \\| d \\\\| e `|` f",
    "`code` ``two`` ```three``` ```` \\` ~~~",
    "```\n# A heading\n```",
    "# heading\n\n- list\n\n> quote\n\n---\n===\n",
    "1. one\n2) two",
    "[link](https://evil.example) ![x](https://evil.example/x.png) [ref]: https://evil.example",
    "https://evil.example www.evil.example http://a.b <https://evil.example> a@evil.example",
    "*a* **b** _c_ __d__ ~~e~~ ~f~ ^g^ $x$ $$y$$",
    "&lt;b&gt; &#42; &amp;",
    "\x1b[2J\x1b]0;title\x07 \u202etxet \x9b31m",
    "</details><details open><summary>x</summary>",
    "\t    indented\r\n/close",
    "- [x] done",
    "| --- | --- |",
    "]]> --> */ ';drop",
    "end with backslash \\",
    " ",
    "",
]


class _Tags(HTMLParser):
    """What a page is made of, without its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [f"{name}={value}" for name, value in attrs if name in ("src", "href", "action", "style")]
        self.addresses += [name for name, _value in attrs if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:  # noqa: ARG002 - as its base has it
        self.tags.append("comment")


def tags_of(page: str) -> _Tags:
    found = _Tags()
    found.feed(page)
    found.close()
    return found


def rendered(text: str) -> str:
    """As GitHub reads it: tables, struck out text, and HTML."""
    return str(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))


def structure(page: str) -> list[str]:
    """Tags; `code` and `-` for an empty text are the writer's choice."""
    return [tag for tag in tags_of(page).tags if tag.strip("/") not in ("code", "strong")]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_agents_wrote_stays_text_in_markdown(text: str) -> None:
    whole = markdown_of(a_report(text))
    page = rendered(whole)
    assert structure(page) == structure(rendered(markdown_of(a_report("plain"))))
    assert tags_of(page).addresses == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", whole)
    assert [line for line in whole.splitlines() if line.startswith("/")] == []


def sections(text: str) -> str:
    """Those of a report as its HTML has them."""
    return str(sections_of(a_report(text)))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_agents_wrote_stays_text_in_html(text: str) -> None:
    whole = sections(text)
    assert structure(whole) == structure(sections("plain"))
    assert tags_of(whole).addresses == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", whole)


@pytest.mark.parametrize(
    "text",
    ["thanks @octocat", "fixes #12", "see octo/repo#12", "closes GH-7", "see !9", "www.evil.example", "https://e.x"],
)
def test_a_forge_sees_no_mention_number_or_address(text: str) -> None:
    """Outside of code, where forges look for none."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", markdown_of(a_report(text)), flags=re.DOTALL)
    assert not re.search(r"@\w|#\d|GH-\d|!\d|www\.|://", prose.replace("&#8203;", "\u200b").replace("run #", "")), (
        prose
    )


def test_a_text_is_shown_whole_where_there_is_room() -> None:
    text = "a <b> | `c` \\ *d* _e_ snake_case & f"
    page = rendered(markdown_of(a_report(text)))
    shown = re.sub(r"<[^>]+>", "", page)
    assert shown.count("a &lt;b&gt; | `c` \\ *d* _e_ snake_case &amp; f") > 10


@pytest.mark.parametrize(("rows", "text"), [(2_000, "word " * 5), (100, "x|@y <" * 400), (1, "&" * 60_000)])
def test_it_fits_a_pull_request_and_says_what_it_leaves_out(rows: int, text: str) -> None:
    whole = markdown_of(a_report(text, rows))
    assert 0 < len(whole) <= MOST_CHARS
    assert ("and " in whole and " more" in whole) if rows > 1 else "…" in whole
    assert structure(rendered(whole)).count("table") == structure(rendered(whole)).count("/table") > 3


def test_the_html_file_is_the_page_and_needs_nothing_else(shelf: Shelf) -> None:
    whole = ask(shelf.project, "report", shelf.run, "--format", "html").stdout
    (style,) = re.findall(r"<style>(.*?)</style>", whole, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in whole
    assert not re.search(r"https?://|<script|<link|<form|<button|@import|url\(", whole)
    addresses = [each for each in tags_of(whole).addresses if each != "href=None"]
    steps = shelf.project.json("log", shelf.run)
    assert set(addresses) == {f"href=#step-{number}" for number in range(1, len(steps) + 1)}
    assert re.findall(r'<section id="(step-\d+)"', whole) == [f"step-{n}" for n in range(1, len(steps) + 1)]
    for part in ("Not proven", "Reproduce it", "the agent says", "What the run changed"):
        assert part in whole


def test_html_needs_no_extra(shelf: Shelf) -> None:
    """What `pip install 'git-swarm[web]'` would bring is not there."""
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(('starlette', 'uvicorn', 'anyio'))\n"
        "from gitswarm.cli.app import run\n"
        f"sys.exit(run(['report', {shelf.run!r}, '--format', 'html']))"
    )
    argv, env = [sys.executable, "-c", code], dict(shelf.project.env)
    done = subprocess.run(argv, cwd=shelf.project.root, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Reproduce it" in done.stdout
