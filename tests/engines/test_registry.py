"""Which engines there are: nothing but their own package names them, and one that is broken harms nobody."""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitswarm.engines.adapter import EngineAdapter
from gitswarm.engines.names import BUILT_IN, id_of
from gitswarm.engines.registry import (
    BrokenEngineError,
    adapter_of,
    adapters,
    broken_engines,
    distribution_of,
    is_known,
    known_names,
)
from gitswarm.errors import SpecError, UsageError
from gitswarm.settings import CommandLine, config_with, engine_access, freeze_settings, load_config
from gitswarm.settings_personal import known_keys

PACKAGE = Path(__file__).parent.parent.parent / "gitswarm"
NAMES_OF_OTHERS = {
    "cli/help_pages.py": "documentation: examples of the manual",
    "records/globs.py": "default configuration: files in which projects speak to agents, and which they protect",
    "safety/policy/paths.py": "what programs keep in a home, whether they are engines or not",
    "safety/policy/table.py": "programs that no agent starts, whether they are engines or not",
    "safety/redact/redactor.py": "variables that hold keys, whoever reads them",
}
"""Files outside of `engines/` in which a literal may name somebody else's program, and why."""

WORKING = """
from gitswarm.engines.adapter import EngineAdapter, ProgramSection
from gitswarm.engines.claude.claude_code import CAPABILITIES
from gitswarm.records.record import Record

class Settings(Record):
    speed: int = 1

class Adapter(EngineAdapter):
    short_name = "NAME"
    modes = {"far": CAPABILITIES}
    providers = ("them", "others")
    section, settings = ProgramSection, Settings
    inherits = ("THEIR_",)

    def open(self, mode, setup):
        raise NotImplementedError

ADAPTER = Adapter()
"""


def brings(folder: Path, distribution: str, entries: dict[str, str], module: str = "") -> None:
    """Installs a distribution with entry points, as pip leaves it."""
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
    info.joinpath("entry_points.txt").write_text(f"[git_swarm.engines]\n{lines}")
    folder.joinpath(f"{distribution}.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of `sys.path` with a good engine; modules of it are forgotten afterwards."""
    folder = Path(tempfile.mkdtemp(dir=tmp_path))  # no other test's: what is found in a folder is remembered
    brings(folder, "lightning", {"bolt": "lightning:ADAPTER"}, WORKING.replace("NAME", "bolt"))
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(sys.modules[name].__file__).startswith(str(folder)):
            del sys.modules[name]


def literals(source: str) -> Iterator[str]:
    """Texts of a module that are no documentation."""
    tree = ast.parse(source)
    told = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in told:
            yield each.value


def test_nothing_outside_of_the_engines_names_one() -> None:
    names = re.compile("|".join(BUILT_IN), re.IGNORECASE)
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "engines"
        and any(names.search(text) for text in literals(path.read_text("utf-8")))
    }

    assert found == set(NAMES_OF_OTHERS)


def test_documentation_is_no_literal() -> None:
    assert list(literals('"""about claude"""\nx = "claude"\n"""gemini, too"""\n')) == ["claude"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_tab_knows_of_a_built_in_engine_is_what_it_says(name: str) -> None:
    adapter = adapter_of(name)

    assert (adapter.short_name, tuple(adapter.modes)) == (name, BUILT_IN[name].modes)
    assert adapter.configuration.__struct_fields__ == BUILT_IN[name].keys
    assert adapter_of(adapter.engine_id) is adapter
    assert set(adapter.settings.__struct_fields__) <= set(adapter.configuration.__struct_fields__)


@pytest.mark.usefixtures("site")
def test_an_installed_engine_is_known_by_both_names() -> None:
    assert known_names() == [*BUILT_IN, "bolt"]
    assert [is_known(name) for name in ("bolt", "bolt-step", "bold")] == [True, True, False]
    assert adapter_of("bolt-step") is adapter_of("bolt")
    assert distribution_of("bolt") == "lightning 1.0"
    assert [adapter.engine_id for adapter in adapters()] == [*map(id_of, BUILT_IN), "bolt-step"]


@pytest.mark.usefixtures("site")
def test_it_is_imported_when_it_is_asked_for_and_not_before() -> None:
    config = load_config("engines: {default: claude}\n", {"swarm.engines.claude.mode": "cli"})
    freeze_settings(config, {}, CommandLine(), scripted=False)
    assert known_names()
    assert "lightning" not in sys.modules

    load_config("engines: {bolt: {mode: far}}\n", {})

    assert "lightning" in sys.modules


@pytest.mark.usefixtures("site")
def test_its_section_is_validated_as_any_other() -> None:
    config = load_config("engines: {default: bolt, bolt: {mode: far, speed: 3, env: {A: '${B}'}}}\n", {})
    frozen = freeze_settings(config, {"B": "b"}, CommandLine(), scripted=False)

    assert (frozen.default_engine.key, frozen.default_engine.provider) == (("bolt-step", "far"), "them")
    assert frozen.engines == {"bolt": {"speed": 3}}
    access = engine_access(config, {"B": "b", "THEIR_KEY": "k", "SWARM_BOLT_CLI": "/x"})["bolt-step"]
    assert (access.env, access.cli) == ({"THEIR_KEY": "k", "A": "b"}, "/x")
    keys = [".".join(key) for key in known_keys(config_with(known_names()))]
    assert [key for key in keys if "bolt" in key] == [
        f"engines.bolt.{key}" for key in ("mode", "env", "cli", "speed")
    ]
    for wrong, told in (
        ("{mode: near}", "engines.bolt.mode: there is no mode 'near' (known: far, stub)"),
        ("{speed: fast}", "engines.bolt.speed"),
        ("{sped: 3}", "engines.bolt.sped"),
        ("{env: {THEIR_KEY: abc}}", "engines.bolt.env.THEIR_KEY: a key does not belong in a committed file"),
    ):
        with pytest.raises(SpecError, match=re.escape(told)):
            load_config(f"engines: {{bolt: {wrong}}}\n", {})


@pytest.mark.usefixtures("site")
def test_variables_are_called_after_the_engine() -> None:
    adapter = adapter_of("bolt")

    assert adapter.mode_from_env({"SWARM_BOLT_STEP_ENGINE_MODE": "far"}) == "far"
    assert adapter_of("claude").mode_from_env({"SWARM_CLAUDE_STEP_ENGINE_MODE": "cli"}) == "cli"
    assert adapter_of("claude").program_from_env({"SWARM_CLAUDE_CLI": "/c"}) == "/c"
    assert [adapter_of("gemini").mode_from_env({"SWARM_GEMINI_STUB": said}) for said in "01x"] == [
        "cli",
        "stub",
        None,
    ]


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("ADAPTER = object()", "bad:ADAPTER is not an EngineAdapter"),
        ("", "AttributeError: module 'bad' has no attribute 'ADAPTER'"),
        (WORKING.replace("NAME", "bolt"), "its entry point is not called 'bolt'"),
        (WORKING.replace("NAME", "bad").replace("    def open", "    def close"), "TypeError: Can't instantiate"),
    ],
)
def test_a_broken_one_is_named_with_who_brought_it(site: Path, module: str, why: str) -> None:
    brings(site, "bad", {"bad": "bad:ADAPTER"}, module)
    sys.path_importer_cache.clear()
    sys.path.append(str(site / "elsewhere"))  # another search path: it is looked for anew

    (broken,) = broken_engines()

    assert broken.message.startswith(f"the engine 'bad' of bad 1.0 is broken: {why}")
    assert broken.hint == "pip install --upgrade bad, or: pip uninstall bad"
    assert [adapter.short_name for adapter in adapters()] == [*BUILT_IN, "bolt"]
    with pytest.raises(BrokenEngineError):
        adapter_of("bad")
    config = load_config("engines: {bad: {anything: 1}, flows: {gate: bad}}\n", {})
    frozen = freeze_settings(config, {}, CommandLine(), scripted=False)
    assert frozen.flow_engines["gate"].engine == "bad-step"
    assert "bad-step" not in engine_access(config, {})
    sys.path.pop()


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"claude": "bad:ADAPTER"}, "the engine 'claude' of bad 1.0 is broken: git-swarm has an engine of that name"),
        ({"bolt": "bad:ADAPTER"}, "is broken: lightning 1.0 brings an engine of that name too"),
        ({"flows": "bad:ADAPTER"}, "'flows' is not a name for an engine"),
        ({"../up": "bad:ADAPTER"}, "'../up' is not a name for an engine"),
    ],
)
def test_a_name_is_taken_once(site: Path, entries: dict[str, str], told: str) -> None:
    brings(site, "bad", entries, "raise RuntimeError")
    sys.path.append(str(site / "elsewhere"))

    (broken,) = broken_engines()

    assert told in broken.message or told.replace("lightning", "bad") in broken.message
    assert isinstance(adapter_of("claude"), EngineAdapter)
    sys.path.pop()


@pytest.mark.usefixtures("site")
def test_an_engine_that_nobody_brings_is_a_mistake_with_the_right_word() -> None:
    with pytest.raises(UsageError, match=re.escape("unknown engine 'bolt-stepp' (did you mean 'bolt-step'?)")):
        adapter_of("bolt-stepp")
    with pytest.raises(SpecError, match=re.escape("unknown key 'engines.bold'")):
        load_config("engines: {bold: {mode: far}}\n", {})
