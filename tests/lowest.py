"""The lowest versions that pyproject.toml says are enough, as constraints for pip: `make lowest` installs them.

python -m tests.lowest                  one `name==version` a line
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
TOOLS = frozenset({"ruff", "mypy", "import-linter", "types-pyyaml", "types-psutil"})
"""What only looks at the code: newer ones find more, older ones nothing that matters to a user."""


def requirements(*, extras: bool) -> Iterator[Requirement]:
    """What git-swarm is installed with; itself left out.

    :param extras: also what only an extra needs.
    """
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = project["optional-dependencies"].values() if extras else ()
    for line in (*project["dependencies"], *(line for group in groups for line in group)):
        found = Requirement(line)
        if found.name != "git-swarm":
            yield found


def bound(requirement: Requirement, *operators: str) -> str | None:
    """The version that one of these operators stands before."""
    return next((each.version for each in requirement.specifier if each.operator in operators), None)


def constraints() -> list[str]:
    """One line for each package whose lowest version matters."""
    found = {each.name.lower(): bound(each, ">=", "==", "~=") for each in requirements(extras=True)}
    return [f"{name}=={version}" for name, version in found.items() if version and name not in TOOLS]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in constraints()))
