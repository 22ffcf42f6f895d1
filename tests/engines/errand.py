"""The engine of the example, installed."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "engines" / "errand"


@contextmanager
def with_errand(folder: Path) -> Iterator[Path]:
    """In a folder of `sys.path`, with what pip would make of its pyproject.toml: `bin/errand` is its agent."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    for name in ("errand_agent.py", "errand_engine.py"):
        shutil.copy(EXAMPLE / name, folder)
    info = folder / f"git_swarm_errand-{project['version']}.dist-info"
    info.mkdir()
    ((group, entries),) = project["entry-points"].items()
    told = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(told)
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()))
    (folder / "bin").mkdir()
    program, (module, _colon, function) = folder / "bin" / "errand", project["scripts"]["errand"].partition(":")
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from {module} import {function}; {function}()"
    program.write_text(f"#!{sys.executable} -IS\n{code}\n")
    program.chmod(0o755)
    sys.path.insert(0, str(folder))
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
        for name in ("errand_engine", "errand_agent"):
            sys.modules.pop(name, None)
