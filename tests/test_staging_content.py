"""The staging matrix, files: whatever an agent leaves is committed as git would, and restored to the byte."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.twin import Row, check, parameters

FETCHED_LFS = Path(sys.executable).parent.parent / "git-lfs" / "bin"


def with_attributes(text: str, **config: str) -> Callable[[Project], Project]:
    """`.gitattributes` and configuration; the user's files are checked out anew by them."""

    def arrange(project: Project) -> Project:
        project.commit({".gitattributes": text})
        for name, value in config.items():
            project.git("config", name.replace("__", "."), value)
        project.git("rm", "-q", "-r", "--cached", ".")
        project.git("reset", "-q", "--hard")
        return project

    return arrange


def with_lfs(project: Project) -> Project:
    """The real git-lfs, installed for the user, with a large file in the first commit."""
    path = f"{FETCHED_LFS}{os.pathsep}{project.env['PATH']}"
    if shutil.which("git-lfs", path=path) is None:
        pytest.skip(f"no git-lfs on PATH or in {FETCHED_LFS}: see tests/fetch_git_lfs.sh")
    user = replace(project, env={**project.env, "PATH": path})
    user.git("lfs", "install", "--skip-repo")
    user.commit({".gitattributes": "*.big filter=lfs diff=lfs merge=lfs -text\n", "old.big": "large\n" * 1000})
    assert user.git("show", "HEAD:old.big").startswith("version https://git-lfs.github.com/spec/v1\n")
    return user


def with_ignore_rules(project: Project) -> Project:
    """A rule in every place that git knows, and files that fall under them."""
    (Path(project.env["HOME"]) / "excludes").write_text("*.swp\n", encoding="utf-8")
    project.git("config", "--global", "core.excludesFile", "~/excludes")
    project.commit({".gitignore": "*.ign\n!kept.ign\nout/\n/top\n.swarm/\n", "src/.gitignore": "*.tmp\n"})
    project.write({".git/info/exclude": "*.local\n"})
    return project


def with_runs_excluded(project: Project) -> Project:
    (Path(project.env["HOME"]) / "excludes").write_text(".swarm/runs\n", encoding="utf-8")
    project.git("config", "--global", "core.excludesFile", "~/excludes")
    project.write({".git/info/exclude": ".swarm\n"})
    return project


def without_file_modes(project: Project) -> Project:
    project.git("config", "core.fileMode", "false")
    return project


SHOW_HIDDEN = """
git ls-files -z | git update-index -z --no-assume-unchanged --stdin
git ls-files -z | git update-index -z --no-skip-worktree --stdin
"""
CONFLICT = """
blob=$(echo other | git hash-object -w --stdin)
{ printf '0 %040d\\tREADME.md\\n' 0; for n in 1 2 3; do printf '100644 %s %s\\tREADME.md\\n' $blob $n; done
} | git update-index --index-info
"""
ODD_NAMES = rf"""
for name in "$(printf 'tab\there')" "$(printf 'new\nline')" "$(printf 'caf\351')" "$(printf 'e\314\201')" é '"' "'" \
    -n -- --all {"l" * 255} 🐝 ':(exclude)x' ':!src' '*' '?' '[a]' 'a b' ' lead' 'trail ' '\' '\n' '#' '!x' '~' \
    ... $
do
    echo 1 > "./$name"
done
mkdir -p './*d' -- '-d/[b]'
echo x > '*d/x'
echo x > '-d/[b]/!x'
"""

ROWS = (
    Row(
        "plain files",
        first="echo 1 > a; mkdir -p d/e; echo x > d/e/x; printf 'a\\000b' > bin; echo two >> README.md",
        second="echo 2 > a; git rm -q --cached src/app.py; rm -r d src/app.py; mv bin bin2; : > empty",
    ),
    Row(
        "git-lfs",
        arrange=with_lfs,
        first="seq 9999 > new.big; echo small > small; echo more >> old.big",
        second="seq 99999 > new.big; rm old.big; mkdir d; seq 5 > d/third.big",
        dirt="seq 7 > new.big; seq 8 > dirt.big",
    ),
    Row(
        "a filter of the project that must not be skipped",
        arrange=with_attributes(
            "*.rot filter=rot\n*.json* filter=rot\n",
            filter__rot__clean="tr a-z n-za-m",
            filter__rot__smudge="tr n-za-m a-z",
            filter__rot__required="true",
        ),
        first="echo secret > a.rot",
        second="echo changed > a.rot; echo plain > b; echo other > b.rot",
        dirt="echo dirt > b.rot; echo dirt > c.rot",
    ),
    Row(
        "UTF-16 in the worktree",
        arrange=with_attributes("*.u16 working-tree-encoding=UTF-16LE-BOM text eol=crlf\n"),
        first="printf '\\377\\376a\\000\\r\\000\\n\\000' > a.u16",
        second="printf '\\377\\376b\\000\\r\\000\\n\\000' > a.u16; cp a.u16 b.u16",
        dirt="printf '\\377\\376c\\000\\r\\000\\n\\000' > b.u16",
    ),
    Row(
        "autocrlf and safecrlf",
        arrange=with_attributes("", core__autocrlf="true", core__safecrlf="true"),
        first="printf 'a\\r\\nb\\r\\n' > dos; printf 'c\\n' > unix; printf 'd\\r\\ne\\n' > mixed\n"
        "printf 'f\\000\\r\\n' > b",
        second="printf 'A\\r\\nb\\r\\n' > dos; printf 'g\\r\\n' >> src/app.py; printf 'f\\000\\r\\n\\n' > b",
        dirt="printf 'dirt\\r\\n' > dos",
        add=("-c", "core.safecrlf=false", "add", "-A"),
    ),
    Row(
        "autocrlf=input",
        long=True,
        arrange=with_attributes("", core__autocrlf="input"),
        first="printf 'a\\r\\nb\\r\\n' > dos; printf 'c\\n' > unix",
        second="printf 'C\\n' > unix; printf 'd\\n' > other",
    ),
    Row(
        "eol and ident",
        arrange=with_attributes(
            "*.dos text eol=crlf\n*.json* text eol=crlf\n*.nix text eol=lf\n*.id ident\n*.raw -text\n"
        ),
        first="printf 'a\\r\\n' > a.dos; printf 'a\\n' > a.nix; printf '$Id$\\n' > a.id\n"
        "printf 'a\\r\\nb\\n' > a.raw; printf '1\\r\\n' > c.nix",
        second="printf 'b\\r\\n' > a.dos; printf 'b\\n' > a.nix; printf 'b\\r\\nc\\n' > a.raw",
        dirt="printf 'dirt\\r\\n' > a.dos; printf 'dirt\\r\\n' > a.raw; rm README.md",
    ),
    Row(
        "symbolic links",
        first="ln -s no/where dangling; ln -s src to_src; ln -sf src/app.py README.md; mv src real; ln -s real src",
        second="rm src README.md to_src; mv real src; echo back > README.md; mkdir to_src; echo x > to_src/x\n"
        "ln -sfn elsewhere dangling; ln -s ../src/app.py to_src/up",
        dirt="rm -r to_src; ln -s .. to_src; rm dangling; echo file > dangling",
    ),
    Row(
        "modes, and renames of case only",
        first="chmod +x README.md; echo a > a; chmod 755 a; echo b > b; chmod 600 b; mv src SRC; echo 1 > c",
        second="chmod -x README.md a; chmod +x b; echo c >> b; mv SRC/app.py SRC/App.py; mv SRC Src; echo 2 > C\n"
        "mv README.md Readme.md",
        dirt="chmod -x b; chmod +x Readme.md; mv C d; mv Src src",
    ),
    Row(
        "modes that git does not trust",
        long=True,
        arrange=without_file_modes,
        first="chmod +x README.md; echo a > a; chmod +x a; git add a; git update-index --chmod=+x a",
        second="echo b > b; echo a >> a",
        dirt="echo dirt > a; rm b",
    ),
    Row(
        "odd names",
        first=ODD_NAMES,
        second="rm -- './*' './-n' './:(exclude)x'; echo 2 > './[a]'; echo 2 > \"$latin\"; rm -r -- -d\n"
        "mv \"$(printf 'new\\nline')\" \"$(printf 'new\\r\\nline')\"; echo 2 > ./--all; echo 2 > './:!src'\n"
        "chmod +x '\\'".replace("$latin", "$(printf 'caf\\351')"),
        dirt="rm './?'; echo dirt > './[a]'; echo dirt > ':'; echo dirt > \"$(printf '\\377\\376')\"; rm './trail '",
    ),
    Row(
        "ignored files",
        arrange=with_ignore_rules,
        first="mkdir -p out in/out; for f in a.ign kept.ign out/x in/out/x top in/top a.swp a.local src/a.tmp a.tmp\n"
        "do echo 1 > $f; done; echo 1 > forced.ign; git add -f forced.ign\n"
        "echo '*.also' >> .gitignore; echo 1 > a.also; mkdir new; echo '*' > new/.gitignore; echo 1 > new/x",
        second="echo 2 > a.also; echo 2 > kept.ign; echo 2 > forced.ign; echo 2 > b.ign; echo 2 > new/y",
        dirt="echo dirt > out/y; echo dirt > kept.ign; echo dirt > in/x",
    ),
    Row(
        "runs ignored by the user's own excludes",
        arrange=with_runs_excluded,
        first="echo 1 > a; mkdir -p .swarm/mine; echo 1 > .swarm/mine/x",
        second="echo 2 > a; echo 2 > .swarm/mine/y",
    ),
    Row(
        "files become folders and back, among pipes and sockets",
        first="rm -r README.md src; mkdir -p README.md/deep empty/deep; echo x > README.md/deep/x; echo file > src\n"
        "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'",
        second="rm -r README.md src empty/deep; echo back > README.md; mkdir -p src/app.py; echo y > src/app.py/y",
        dirt="rm -r src; echo dirt > src; rm README.md; mkdir README.md; echo dirt > README.md/dirt",
    ),
    Row(
        "files hidden in the index by the agent",
        first="git update-index --assume-unchanged README.md; git update-index --skip-worktree src/app.py\n"
        "echo 1 >> README.md; echo 1 >> src/app.py; echo 1 > meant; git add -N meant",
        second="git update-index --assume-unchanged README.md src/app.py; echo 2 >> README.md; rm src/app.py",
        plainly=SHOW_HIDDEN,
    ),
    Row(
        "an index in conflict",
        first=f"echo mine > README.md{CONFLICT}",
        second=f"echo resolved > README.md{CONFLICT}rm README.md; echo 2 > a",
        dirt="echo dirt > README.md",
    ),
    Row(
        "repositories made by the agent",
        first="git init -q emb; git init -q made; cd made; echo 1 > f; git add f; git commit -q -m inner; cd ..\n"
        "git clone -q made copy; echo 1 > copy/g",
        second="git init -q made; echo 2 > made/f; git init -q src; git init -q --bare bare.git",
        dirt="rm -r copy; echo dirt > made/dirt",
        plainly="find . -mindepth 2 -name .git -prune -exec rm -rf {} +",
    ),
)


@pytest.mark.parametrize("row", parameters(ROWS))
def test_a_step_commits_what_git_would(project: Project, row: Row) -> None:
    check(row, project)
