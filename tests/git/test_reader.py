"""Reading without libgit2: the same answers as with it."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from gitswarm.errors import CorruptError
from gitswarm.git.reader import RepositoryReader, open_reader
from gitswarm.git.ref_files import RefFiles
from gitswarm.git.repository import Repository, open_repository
from tests.conftest import Project

ODD_NAMES: list[str | bytes] = [
    "a b.txt",
    "naïve 日本.txt",
    "new\nline",
    'quo"te',
    "-dash",
    "deep/er/file",
    "file",
    "100644 file",
    "a 40000 file",
    "zz file",
    "café".encode("latin-1"),
]


@pytest.fixture(params=["loose", "packed", "half"])
def both(project: Project, request: pytest.FixtureRequest) -> tuple[RepositoryReader, Repository]:
    """The same repository twice, with everything odd in it."""
    make_odd(project)
    if request.param == "packed":
        project.git("gc", "-q", "--prune=now")
    elif request.param == "half":  # every other object
        project.git("repack", "-q", "-a")
        for path in sorted((project.root / ".git/objects").glob("[0-9a-f][0-9a-f]/*"))[::2]:
            path.unlink()
    return read_twice(project)


def read_twice(project: Project) -> tuple[RepositoryReader, Repository]:
    return open_reader(project.root, project.env), open_repository(project.root, project.env)


def make_odd(project: Project) -> None:
    for name in ODD_NAMES:
        path = project.root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(100))
    (project.root / "link").symlink_to("README.md")
    project.commit({"big.bin": random.Random(1).randbytes(200_000)}, "odd names\n\nand a body\n\n\nSigned-off-by: x")
    project.git("checkout", "-q", "-b", "side", "HEAD~1")
    project.git(
        "-c", "i18n.commitEncoding=latin1", "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", "\n\nà"
    )
    project.git("checkout", "-q", "main")
    author = ("-c", "user.name=Änn <x", "-c", "user.email=a@b")
    project.git(*author, "merge", "-q", "--no-ff", "-m", "both", "side")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    project.git("commit", "-q", "-m", "a submodule")
    project.git("tag", "-a", "v1", "-m", "one")
    project.git("notes", "--ref", "remarks", "add", "-m", "a note", "HEAD")
    project.git("pack-refs", "--all")
    project.git("branch", "shadow/loose")
    project.git("symbolic-ref", "refs/heads/shadow/other", "refs/heads/side")


def test_commits_are_the_same(project: Project, both: tuple[RepositoryReader, Repository]) -> None:
    ids = project.git("rev-list", "--all").split()
    read, known = ([(one.objects.commit(i), one.objects.author(i)) for i in ids] for one in both)
    assert read == known


def test_trees_and_files_are_the_same(project: Project, both: tuple[RepositoryReader, Repository]) -> None:
    tree = project.git("rev-parse", "HEAD^{tree}")
    paths = [os.fsdecode(name) for name in ODD_NAMES]
    paths += ["big.bin", "link", "module", "module/x", "deep", "deep/er", "none", "deep/none/file", "README.md/x"]
    answers = [
        (
            [(one.objects.entry(tree, path), one.objects.file(tree, path)) for path in paths],
            one.objects.files_of([(tree, path) for path in paths]),
            dict(one.objects.entries(tree)).keys() - {os.fsdecode(ODD_NAMES[-1])},
        )
        for one in both
    ]
    assert answers[0] == answers[1]


def test_whether_trees_differ_outside_of_a_path_is_the_same(
    project: Project, both: tuple[RepositoryReader, Repository]
) -> None:
    new, old = project.git("rev-parse", "HEAD^{tree}", "HEAD~1^{tree}").split()
    asked = [(new, old, path) for path in ("module", "README.md", "deep/er", "none")]
    assert [[one.objects.same_but(*each) for each in asked] for one in both] == [[True, False, False, False]] * 2


def test_refs_are_the_same(project: Project, both: tuple[RepositoryReader, Repository]) -> None:
    names = [*project.git("for-each-ref", "--format=%(refname)").splitlines(), "refs/heads/none", "refs/heads"]
    for prefix in ("refs/heads/shadow/", "refs/", "refs/heads/sha", "refs/none/"):
        assert both[0].refs.list(prefix) == both[1].refs.list(prefix) == [*both[0].refs.values(prefix)]
        assert both[0].refs.values(prefix) == both[1].refs.values(prefix)
        assert all(both[0].refs.read(name) == value for name, value in both[0].refs.values(prefix).items())
    read, known = ({name: one.refs.read(name) for name in names} for one in both)
    assert read == known


def test_a_ref_that_moves_and_is_packed_is_seen(project: Project, both: tuple[RepositoryReader, Repository]) -> None:
    reader = both[0]
    before = reader.refs.read("refs/heads/side")
    project.git("update-ref", "refs/heads/side", "HEAD")
    loose = reader.refs.read("refs/heads/side")
    project.git("pack-refs", "--all")
    assert (before != loose, reader.refs.read("refs/heads/side")) == (True, loose)
    (project.root / ".git/refs/heads/side").write_text("nothing\n", encoding="utf-8")
    assert [one.refs.values("refs/heads/si") for one in both] == [{"refs/heads/side": ""}] * 2


def test_a_ref_that_is_packed_while_refs_are_listed_is_among_them(
    project: Project, both: tuple[RepositoryReader, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, packed = both[0], RefFiles._packed_refs
    names = project.git("for-each-ref", "--format=%(refname)", "refs/heads/shadow").splitlines()

    def then_packed(refs: RefFiles) -> dict[str, str]:
        found = packed(refs)
        project.git("pack-refs", "--all")
        return found

    monkeypatch.setattr(RefFiles, "_packed_refs", then_packed)
    project.git("update-ref", "refs/heads/shadow/new", "HEAD")
    assert reader.refs.list("refs/heads/shadow/") == [*names[:1], "refs/heads/shadow/new", *names[1:]]
    project.git("update-ref", "refs/heads/shadow/newer", "HEAD")
    assert "refs/heads/shadow/newer" in reader.refs.values("refs/heads/shadow/")


def test_a_ref_that_goes_while_refs_are_listed_is_not_damaged(
    project: Project, both: tuple[RepositoryReader, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.git("update-ref", "refs/heads/shadow/new", "HEAD")
    for refs in (both[0].refs, both[1].refs):
        monkeypatch.setattr(refs, "read", lambda _name: None)
    assert [one.refs.values("refs/heads/shadow/new") for one in both] == [{}, {}]


def test_notes_and_what_tags_lead_to_are_the_same(
    project: Project, both: tuple[RepositoryReader, Repository]
) -> None:
    head, tag = project.git("rev-parse", "HEAD"), project.git("rev-parse", "v1")
    tree = project.git("rev-parse", "HEAD^{tree}")
    notes = [one.notes("refs/notes/remarks").read(head) for one in both]
    peeled = [[one.objects.peeled(asked) for asked in (head, tag, tree, "1" * 40)] for one in both]
    assert (notes, peeled) == ([b"a note\n"] * 2, [[head, head, None, None]] * 2)


def test_a_blob_is_read_by_its_id_alone(project: Project, both: tuple[RepositoryReader, Repository]) -> None:
    blob, tree = (project.git("rev-parse", name) for name in ("HEAD:README.md", "HEAD^{tree}"))
    for one in both:
        assert one.objects.files_of([(blob, ""), (tree, "")]) == [b"# hello\n", None]


def test_a_missing_object_is_named_and_the_next_question_is_answered(project: Project) -> None:
    make_odd(project)
    both = read_twice(project)
    tree, blob = project.git("rev-parse", "HEAD^{tree}"), project.git("rev-parse", "HEAD:README.md")
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for one in both:
        with pytest.raises(CorruptError, match=f"object {blob} is missing or damaged"):
            one.objects.file(tree, "README.md")
        with pytest.raises(CorruptError, match=f"object {'1' * 40} is missing or damaged"):
            one.objects.commit("1" * 40)
        with pytest.raises(CorruptError, match="is not a commit"):
            one.objects.commit(tree)
        assert one.objects.file(tree, "big.bin") is not None


def damaged(content: bytes) -> list[bytes]:
    """What may lie in the place of a loose object."""
    other = zlib.compress(b"blob 3\0one")
    return [b"nonsense", b"", content[:-1], content[: len(content) // 2], content + b"x", other[:-5]]


def test_a_damaged_object_is_named_and_the_next_question_is_answered(project: Project) -> None:
    make_odd(project)
    before, head = project.git("rev-parse", "HEAD~1", "HEAD").split()
    path = project.root / ".git/objects" / head[:2] / head[2:]
    content = path.read_bytes()
    path.chmod(0o644)
    for each in damaged(content):
        path.write_bytes(each)
        reader, _known = read_twice(project)
        with pytest.raises(CorruptError, match=f"object {head} is missing or damaged"):
            reader.objects.commit(head)
        assert reader.objects.commit(before).id == before


def test_a_reader_leaves_no_process_behind(project: Project) -> None:
    gc.collect()
    project.git("gc", "-q")
    reader = open_reader(project.root, project.env)
    reader.objects.commit(project.git("rev-parse", "HEAD"))
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text(encoding="ascii").split()
    del reader
    assert len(before) - len(children.read_text(encoding="ascii").split()) == 1


def test_a_repository_is_opened_with_one_process_of_git(project: Project, tmp_path: Path) -> None:
    log, shim = tmp_path / "calls", tmp_path / "bin"
    shim.mkdir()
    git = shutil.which("git", path=project.env["PATH"])
    (shim / "git").write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {git} "$@"\n', encoding="utf-8")
    (shim / "git").chmod(0o755)
    code = "import os, pathlib; from gitswarm.git.{0} import open_{1}; open_{1}(pathlib.Path.cwd(), os.environ)"
    for names in (("repository", "repository"), ("reader", "reader")):
        env = {**project.env, "PATH": f"{shim}:{project.env['PATH']}"}
        argv = [shutil.which("python3", path=project.env["PATH"]) or "", "-c", code.format(*names)]
        subprocess.run(argv, cwd=project.root / "src", env=env, check=True)
    assert [line.split("rev-parse")[-1].split()[1] for line in log.read_text(encoding="utf-8").splitlines()] == [
        "--is-inside-work-tree"
    ] * 2
