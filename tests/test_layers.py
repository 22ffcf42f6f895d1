"""The package as people install it: the wheel is whole, and works far from the checkout. What modules import."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from benchmarks.house import import_circle
from tests.lowest import bound, requirements

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, built once for all pytest-xdist workers."""
    common = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        common = common.parent
    folder = common / "wheel"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            build_wheel(folder)
    (built,) = folder.glob("*.whl")
    return built


def build_wheel(folder: Path) -> None:
    """Without hatchling here, pip fetches it."""
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *isolation, "-w", str(folder), str(ROOT)]
    done = subprocess.run([*argv, "--disable-pip-version-check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed in it; what it depends on is where the tests have it."""
    target = tmp_path_factory.mktemp("installed") / "site"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*argv, "--disable-pip-version-check", str(wheel)], capture_output=True, check=True)
    return target


def ask(installed: Path, expression: str) -> Any:
    """What the installed package answers, from a folder without a checkout."""
    code = (
        "import json, gitswarm\n"
        "from pathlib import Path\n"
        "from gitswarm.resources import bundled\n"
        "from gitswarm.specs.library import load_library\n"
        f"print(json.dumps({expression}))\n"
    )
    env = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed.parent, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_wheel_has_the_files_of_the_page(wheel: Path) -> None:
    files = [path for path in (ROOT / "gitswarm" / "web").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= set(zipfile.ZipFile(wheel).namelist())
    assert any(path.name == "htmx.min.js" for path in files)


def test_the_installed_package_is_the_one_that_is_asked(installed: Path) -> None:
    assert ask(installed, "gitswarm.__file__") == str(installed / "gitswarm/__init__.py")


def test_flows_are_found_in_the_installed_package(installed: Path) -> None:
    assert ask(installed, "str(bundled('flows'))") == str(installed / "gitswarm/_bundled/flows")


def test_the_installed_flows_are_those_of_the_checkout(installed: Path) -> None:
    checkout = sorted(path.stem for path in (ROOT / "flows").glob("*.yaml"))
    assert ask(installed, "load_library(bundled('flows'), {}).flow_ids") == checkout


def test_the_installed_stations_are_those_of_the_checkout(installed: Path) -> None:
    checkout = sorted(path.stem for path in (ROOT / "flows/stations").glob("*.yaml"))
    assert ask(installed, "load_library(bundled('flows'), {}).station_ids") == checkout


def test_an_installed_flow_can_be_used(installed: Path) -> None:
    steps = ask(installed, "[s.id for s in load_library(bundled('flows'), {}).flow('build').flow.steps]")
    assert (steps[0], steps[-1]) == ("load_context", "finalize")


def test_the_command_is_called_git_swarm_so_that_git_finds_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/entry_points.txt"))
        text = packed.read(name).decode()
    assert text.split() == ["[console_scripts]", "git-swarm", "=", "gitswarm.__main__:main"]


def test_the_installed_command_runs_without_the_checkout(installed: Path) -> None:
    env = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "HOME": str(installed.parent)}
    done = subprocess.run(
        [str(installed / "bin/git-swarm"), "flows", "list", "--json"],
        cwd=installed.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {flow["source"] for flow in json.loads(done.stdout)} == {"bundled"}


def test_nothing_but_the_package_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
        data = [name.split("/", 1)[1] for name in packed.namelist() if ".data/" in name]
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"gitswarm"}
    assert data == ["data/share/man/man1/git-swarm.1"]


def test_the_wheel_has_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        licences = [name for name in packed.namelist() if name.endswith("/LICENSE")]
        assert [packed.read(name) for name in licences] == [(ROOT / "LICENSE").read_bytes()]


def test_no_cache_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        assert [name for name in packed.namelist() if "__pycache__" in name or name.endswith(".pyc")] == []


def test_no_module_imports_what_imports_it() -> None:
    assert import_circle() == []


def test_each_dependency_has_a_lower_and_an_upper_bound() -> None:
    found = [*requirements(extras=True)]
    assert len(found) > 20
    open_ended = [each.name for each in found if not (bound(each, ">=") and bound(each, "<"))]
    assert open_ended == []
