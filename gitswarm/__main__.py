"""Entry point. What needs no command answers before anything heavy is imported."""

from __future__ import annotations

import sys

_OBJECTS = 200_000
"""More than a command of one step makes: looking for garbage among them takes a tenth of its time."""


def main() -> None:
    line = sys.argv[1:]
    if line in (["--version"], ["-V"]):
        from gitswarm import __version__

        sys.stdout.write(f"git-swarm {__version__}\n")
        return
    if line[:1] in (["-h"], ["--help"]):
        from gitswarm.cli.command_table import ROOT
        from gitswarm.cli.help_pages import NAME, help_text

        sys.stdout.write(help_text(ROOT, NAME))
        return
    if line[:1] == ["__complete"]:
        from gitswarm.cli.candidates import write_candidates

        write_candidates(line[1:])
        return
    import gc

    gc.set_threshold(_OBJECTS)
    from gitswarm.cli.app import run

    # As it ends the interpreter looks for garbage again, a seventh of a command. What a command imports later,
    # for its step, is not frozen: duckdb complains on stderr of what was not collected.
    sys.exit(run(line, imported=gc.freeze))


if __name__ == "__main__":
    main()
