"""The help of the whole and of its groups: groups of commands, examples. Imports next to nothing."""

from __future__ import annotations

import os

from gitswarm.cli.command_table import ROOT, Group

GROUPS = {
    "start a run": "start resume fork demo",
    "steer it": "stop pause skip rollback",
    "look at it": "status list watch web log show diff transcript events why blame compare replay cost stats db path",
    "check it and land it": "report verify bisect approve land",
    "beyond one machine": "push pull hold release fleet fleet-exec",
    "tidy up": "discard gc export",
    "set up": "init config engines doctor completion",
    "define what agents do": "flows stations policy wisdom record-event schemas",
}
"""Title → its commands, in the order in which they are needed."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "start": (
        "git swarm start build -m 'Add --json to the list command' --mode cli",
        "git swarm start build --issue bug.md --max-cost 5 --detach",
        "git swarm start build -m 'Rename the module' --dry-run",
    ),
    "resume": (
        "git swarm resume",
        "git swarm resume 2aa18a -m 'the second one'",
        "git swarm resume --adopt",
        "git swarm resume 2aa18a --hub",
    ),
    "push": ("git swarm push", "git swarm push 2aa18a hub"),
    "hold": ("git swarm hold 2aa18a",),
    "release": ("git swarm release 2aa18a",),
    "fleet run": (
        "git swarm fleet run --issues issues.txt --workers 4 --mode cli",
        "git swarm fleet run --issues issues.jsonl --scheduler tcp://127.0.0.1:8786",
        "git swarm fleet run 2aa18a 70cc64",
    ),
    "fleet submit": (
        "git swarm fleet submit --on slurm --issues issues.txt --slots 16",
        "git swarm fleet submit --on k8s --issues issues.txt --image me/swarm:1",
    ),
    "fleet status": ("git swarm fleet status", "git swarm fleet status --issues issues.txt --json"),
    "fleet serve": ("git swarm fleet serve --port 8786",),
    "fleet work": ("git swarm fleet work tcp://127.0.0.1:8786 --slots 4",),
    "fleet-exec": ("git swarm fleet-exec 2aa18a --hub git@host:runs.git --dir /var/tmp/w",),
    "pull": ("git swarm pull 2aa18a", "git swarm pull && git swarm log"),
    "skip": ("git swarm skip write_docs -m 'there are none'",),
    "rollback": ("git swarm rollback implement --dry-run", "git swarm rollback 7", "git swarm rollback --undo"),
    "fork": (
        "git swarm fork author_tests --engine gemini-step",
        "git swarm fork implement --again --mode cli --until implement",
    ),
    "stop": ("git swarm stop", "git swarm stop 2aa18a --now", "git swarm stop 2aa18a --hub"),
    "pause": ("git swarm pause 2aa18a",),
    "approve": ("git swarm approve", "git swarm approve 2aa18a --reject -m 'no test for the empty list'"),
    "land": ("git swarm land --dry-run", "git swarm land --strategy merge --edit"),
    "log": ("git swarm log", "git swarm log 2aa18a --graph", "git swarm log -n 5 --json"),
    "show": ("git swarm show run_tests", "git swarm show implement@2 --evidence", "git swarm show 7 --routing"),
    "watch": ("git swarm watch", "git swarm watch 2aa18a 70cc64"),
    "web": ("git swarm web --open", "git swarm web --port 8421"),
    "compare": ("git swarm compare 2aa18a 70cc64",),
    "replay": ("git swarm replay 2aa18a", "git swarm replay 2aa18a --json"),
    "blame": ("git swarm blame src/app.py", "git swarm blame src/app.py --run 2aa18a"),
    "bisect": ("git swarm bisect 2aa18a -- make test",),
    "transcript": ("git swarm transcript implement", "git swarm transcript --follow"),
    "report": ("git swarm report > report.md", "git swarm report 2aa18a --format html > report.html"),
    "cost": ("git swarm cost", "git swarm cost --all --by model"),
    "stats": ("git swarm stats", "git swarm stats --since 30d --json", "git swarm stats --sql"),
    "why": ("git swarm why src/app.py:12", "git swarm why src/app.py --run 2aa18a"),
    "diff": ("git swarm diff", "git swarm diff implement --stat"),
    "status": ("git swarm status", "git swarm status 2aa18a --json"),
    "list": (
        "git swarm list --since 3d",
        "git swarm list --hub",
        "git swarm list --state failed",
        "git swarm list --all",
    ),
    "path": ('cd "$(git swarm path)"',),
    "events": ("git swarm events --follow", "git swarm events 2aa18a --json | jq .kind"),
    "verify": ("git swarm verify", "git swarm verify 2aa18a --tip 5ecb392c"),
    "export": (
        "git swarm export 2aa18a ../runs/2aa18a",
        "git swarm export 2aa18a trace.json --trace",
        "git swarm export 2aa18a story.yaml --script",
    ),
    "engines": ("git swarm engines", "git swarm engines --models", "git swarm engines --json"),
    "schemas": ("git swarm schemas docs/schemas",),
    "record-event": ("git swarm record-event 'CI is green' --source ci",),
    "discard": (
        "git swarm discard 2aa18a 70cc64",
        "git swarm discard --landed --older-than 30d --dry-run",
        "git swarm discard 2aa18a --keep-evidence",
        "git swarm discard --restore 2aa18a",
    ),
    "gc": ("git swarm gc --dry-run", "git swarm gc --archive 30d", "git swarm gc --hub --archive 30d"),
    "doctor": ("git swarm doctor", "git swarm doctor --fix"),
    "config": (
        "git swarm config",
        "git swarm config engines.claude.mode cli",
        "git swarm config --team budget.max_cost_usd 5",
        "git swarm config --unset engines.claude.mode",
    ),
    "init": ("git swarm init", "git swarm init --undo"),
    "demo": ("git swarm demo /tmp/demo",),
    "completion": (
        'eval "$(git swarm completion bash)"',
        "git swarm completion fish > ~/.config/fish/git-swarm.fish",
    ),
    "flows list": ("git swarm flows list",),
    "flows show": ("git swarm flows show build",),
    "flows validate": ("git swarm flows validate", "git swarm flows validate build"),
    "flows compile": ("git swarm flows compile build/implement",),
    "flows graph": ("git swarm flows graph build", "git swarm flows graph build --mermaid"),
    "stations list": ("git swarm stations list",),
    "stations show": ("git swarm stations show code-critic",),
    "stations validate": ("git swarm stations validate",),
    "db rebuild": ("git swarm db rebuild", "git swarm db rebuild --out runs.duckdb"),
    "db refresh": ("git swarm db refresh",),
    "db query": ("git swarm db query 'from cost_by_station'", "git swarm db query 'from loops' --json"),
    "db path": ('duckdb -readonly "$(git swarm db path)"',),
    "wisdom list": ("git swarm wisdom list --all",),
    "wisdom show": ("git swarm wisdom show WP-001 --diff",),
    "wisdom apply": ("git swarm wisdom apply WP-001 --branch better-prompts",),
    "wisdom dismiss": ("git swarm wisdom dismiss WP-001 -m 'too narrow'",),
    "policy explain": ("git swarm policy explain 'git push --force'",),
    "policy rules": ("git swarm policy rules",),
}
"""Command → lines to type."""

NEAR: dict[str, str] = {
    "abort": "git swarm stop   (--now: in the middle of the step)",
    "cancel": "git swarm stop   (--now: in the middle of the step)",
    "kill": "git swarm stop --now",
    "continue": "git swarm resume",
    "run": "git swarm start build -m 'the task'",
    "logs": "git swarm log   (what was said in a step: git swarm transcript)",
    "ls": "git swarm list",
    "rm": "git swarm discard RUN",
    "remove": "git swarm discard RUN",
    "delete": "git swarm discard RUN",
    "clean": "git swarm gc   (what has landed: git swarm discard --landed)",
    "archive": "git swarm gc --archive 30d",
    "undo": "git swarm rollback STEP   (undo a rollback: git swarm rollback --undo)",
    "merge": "git swarm land",
    "version": "git swarm --version",
    "history": "git swarm log",
    "help": "git swarm --help   (the manual; the commands on one page: git swarm -h)",
}
"""Words that people know from elsewhere → the command that does it here."""


NAME = "git swarm"
HELP = (["-h"], ["--help"])
_WIDEST, _NARROWEST = 100, 40
_INDENT = 3
_ROOM = 63


def help_text(group: Group, name: str) -> str:
    """Commands in the order in which they are needed; every line is whole.

    :param name: what people call the group: `git swarm flows`.
    """
    width = max(min(_terminal(), _WIDEST), _NARROWEST)
    lines = [f"usage: {name} COMMAND [OPTIONS] [ARGUMENTS]", "", *_wrapped(group.help, width)]
    for title, entries in sections(group).items():
        lines += ["", title] if title else [""]
        longest = max(map(len, group.entries))
        room = width - _INDENT - longest - 2
        for entry, text in entries.items():
            first, *rest = _wrapped(text, room)
            lines.append(f"{'':{_INDENT}}{entry:<{longest}}  {first}")
            lines += [" " * (_INDENT + longest + 2) + line for line in rest]
    longest = max(len(f"{name} COMMAND -h"), len("git help swarm"))
    lines += ["", f"{f'{name} COMMAND -h':<{longest}}  options and examples"]
    if group is ROOT:
        lines += [f"{'git help swarm':<{longest}}  the manual", f"{f'{name} --version':<{longest}}  the version"]
    return "\n".join(lines) + "\n"


def sections(group: Group) -> dict[str, dict[str, str]]:
    """Title → command → what it is for."""
    if group is not ROOT:
        return {"": {name: entry.help.removesuffix(".") for name, entry in group.entries.items()}}
    return {
        title: {name: _short(ROOT.entries[name].help) for name in names.split()} for title, names in GROUPS.items()
    }


def _short(text: str) -> str:
    """On one line of 80 columns behind the longest name: whole, or up to where the details begin."""
    whole = text.removesuffix(".")
    for signs in (":;(", ":;(,"):
        if len(whole) > _ROOM:
            whole = whole[: min((at for sign in signs if (at := whole.find(sign)) > 0), default=len(whole))].rstrip()
    return whole


def unknown(group: Group, name: str, word: str) -> tuple[str, str]:
    """What is wrong with a word that is no entry of a group, and what to type in its place."""
    if word.startswith("-"):
        return f"there is no option '{word}' before a command", f"{name} -h"
    import difflib  # noqa: PLC0415 - only for a mistake

    elsewhere = NEAR if group is ROOT else {}
    known = {**{entry: f"{name} {entry}" for entry in group.entries}, **elsewhere}
    swapped = [each for each in known if sorted(each) == sorted(word)]
    near = swapped or difflib.get_close_matches(word, known, n=1)
    whole = f"{name} {word}".removeprefix(f"{NAME} ")
    return f"there is no command '{whole}'", known[near[0]] if near else f"{name} -h"


def _terminal() -> int:
    """Columns of the terminal, as `shutil.get_terminal_size` says, which is dear to import."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
