"""Entry point. `--version` answers before anything heavy is imported."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from gitswarm import __version__  # noqa: PLC0415

        sys.stdout.write(f"git-swarm {__version__}\n")
        return
    from gitswarm.cli.app import run  # noqa: PLC0415 - typer and pydantic cost a quarter of a second

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
