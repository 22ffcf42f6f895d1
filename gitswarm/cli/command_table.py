"""Every command by its name: where it is, what it is for, and what can stand behind it. Imports nothing."""

from __future__ import annotations


class Command:
    """A command that is imported when it is called.

    `where`: module of this package, behind a dot of the one around it, and function. `help`: one line, the first
    sentence of its docstring. `options`: names of its options, those that take a value with `=`. `words`: what its
    arguments name: `run`, `step`, `flow`, `station`; of several, each can stand there. `is_long`: what does not fit
    on the screen is shown by git's pager.
    """

    __slots__ = ("help", "is_long", "options", "where", "words")

    def __init__(
        self,
        where: str,
        help: str,  # noqa: A002
        options: str = "",
        words: str = "",
        is_long: bool = False,
    ) -> None:
        self.where = where
        self.help = help
        self.options = options
        self.words = words
        self.is_long = is_long


class Group:
    """Commands behind a common word."""

    __slots__ = ("entries", "help")

    def __init__(self, help: str, entries: dict[str, Command | Group]) -> None:  # noqa: A002
        self.help = help
        self.entries = entries


ROOT = Group(
    "Run agents through a software flow on a shadow branch: one commit per step, with its evidence.",
    {
        "start": Command(
            "start:start",
            "Create a run and execute it, one commit per step; on its own branch and worktree.",
            "-m= --message= --issue= --base= --engine= --mode= --model="
            " --economy --script= --allow-stub --routing= --autopilot --from= --until= --feedback= --max-cost="
            " --max-tokens= --max-time= --dry-run --hub --detach --json",
            words="flow",
        ),
        "resume": Command(
            "steer:resume",
            "Continue a run from its tip, whatever ended it.",
            "-m= --message= --adopt --approve --accept= --allow= --feedback= --max-cost= --max-tokens= --max-time="
            " --until= --hub --no-hub --json",
            words="run",
        ),
        "push": Command(
            "exchange:push",
            "Push a run to the hub, a git remote: branch, notes and everything that was set aside.",
            "--json",
            words="run",
        ),
        "pull": Command(
            "exchange:pull",
            "Bring a run from the hub; commits that only this clone has are set aside.",
            "--json",
            words="run",
        ),
        "hold": Command("exchange:hold", "Let nobody else continue a run on the hub, until `release`.", words="run"),
        "fleet-exec": Command(
            "exchange:fleet_exec",
            "Execute one run of the hub, as a fleet does.",
            "--hub= --dir= --parent=",
            words="run",
        ),
        "release": Command("exchange:release", "Let every clone continue a run again, whoever held it.", words="run"),
        "skip": Command(
            "steer:skip",
            "Skip the next step, and continue after it.",
            "--run= -m= --message= --until= --hub --no-hub --json",
            words="step",
        ),
        "rollback": Command(
            "steer:rollback",
            "Return branch and worktree to the state after a step; nothing is lost.",
            "--run= --undo --dry-run --json",
            words="step",
        ),
        "fork": Command(
            "steer:fork",
            "A new run with the same history up to a step; the old one stays as it is.",
            "--run= --again --engine= --mode= --until= --json",
            words="step",
        ),
        "stop": Command("steer:stop", "Stop a run after its current step.", "--now --hub", words="run"),
        "pause": Command("steer:pause", "Pause a run after its current step.", "--now --hub", words="run"),
        "approve": Command(
            "landing:approve",
            "Approve or reject the current code of a run; only approved code lands.",
            "--reject -m= --message= --accept= --json",
            words="run",
        ),
        "land": Command(
            "landing:land",
            "Bring the approved code of a run to its target branch.",
            "--strategy= --target= --dry-run --trust-hooks -m= --message= --edit -e --json",
            words="run",
        ),
        "log": Command(
            "log:log",
            "The steps of a run, oldest first.",
            "-n= --max-count= --json --oneline --graph",
            words="run",
            is_long=True,
        ),
        "show": Command(
            "show:show",
            "One step: what was done, what is proven, where it led.",
            "--run= --envelope --receipt --evidence --prompt --routing --json",
            words="step",
            is_long=True,
        ),
        "watch": Command("watch:watch", "Watch runs live; q quits, the runs continue.", words="run"),
        "web": Command(
            ".web.commands:web", "Follow, judge and steer runs in a browser, on this machine only.", "--port= --open"
        ),
        "transcript": Command(
            "transcript:transcript",
            "Every message and tool call of a step.",
            "--run= --follow -f --full --prompt --json",
            words="step",
            is_long=True,
        ),
        "report": Command(
            ".web.commands:report",
            "A run on one page, for its reviewer: what is proven, where to look, what it cost.",
            "--format=",
            words="run",
            is_long=True,
        ),
        "cost": Command(
            "cost:cost",
            "What a run cost, or all runs: executions, time, tokens, dollars.",
            "--all --by= --json",
            words="run",
            is_long=True,
        ),
        "stats": Command(
            "run_tables:stats",
            "Statistics of all runs: first pass, loops, detours, cost and time, waiting, reward hacking.",
            "-p= --run= --since= --sql --json",
            is_long=True,
        ),
        "why": Command(
            "why:why",
            "Which step wrote a line, what it answered, and what shows that it is right.",
            "--run= --json",
            is_long=True,
        ),
        "blame": Command(
            "why:blame", "Every line of a file, with the step that wrote it.", "--run= --json", is_long=True
        ),
        "bisect": Command(
            "bisect:bisect", "Which step of a run broke a command, by bisection.", "--json", words="run"
        ),
        "diff": Command(
            "show:diff",
            "What a run or a step changed, or how two differ, by git.",
            "--run= --evidence --stat --ext-diff",
            words="step run",
        ),
        "compare": Command(
            "compare:compare",
            "Runs side by side: code, tests, criteria, time, cost.",
            "--json",
            words="run",
            is_long=True,
        ),
        "replay": Command(
            "rehearsals:replay",
            "Execute a recorded run once more without a model, and compare code, status and route of each step.",
            "--json",
            words="run",
        ),
        "status": Command(
            "status:status", "The state of a run, and the next command to type.", "--hub --json", words="run"
        ),
        "list": Command(
            "status:list_runs",
            "All runs of this repository, newest first.",
            "--all -n= --max-count= --since= --state= --hub --json",
            is_long=True,
        ),
        "path": Command("status:path", 'The folder of the run\'s worktree: cd "$(git swarm path)".', words="run"),
        "events": Command(
            "live_events:events", "Everything that happened in a run, in order.", "--follow -f --json", words="run"
        ),
        "verify": Command(
            "verify:verify",
            "Check that a run was not tampered with; offline, from git alone.",
            "--tip= --json",
            words="run",
        ),
        "export": Command(
            "export:export",
            "Write a run as plain files: meta.json, spec.json, events.jsonl, and a folder for each flow.",
            "--trace --script --json",
            words="run",
        ),
        "engines": Command(
            "installation:engines",
            "Engines and their modes, and whether they work here; what each can do.",
            "-v --verbose --models --json",
        ),
        "schemas": Command(
            "schemas:schemas",
            "Write the JSON schemas of all files: flows, stations, configuration, and what a run stores.",
        ),
        "record-event": Command(
            "record_event:record_event",
            "Add an event to a run's history: the next step that is committed stores it.",
            "--source= --kind= --flow= --flow-key= --step= --step-id= --agent= --agent-key="
            " --payload= --payload-file= --run= --run-id=",
        ),
        "discard": Command(
            "cleaning:discard",
            "Remove runs: branch, notes and worktree move to a trash; --restore brings them back.",
            "--landed --failed --older-than= --keep-evidence --dry-run --force --restore --json",
            words="run",
        ),
        "gc": Command(
            "cleaning:gc",
            "Archive old runs, empty the trash; sweep what killed processes left.",
            "--older-than= --archive= --hub --dry-run",
        ),
        "doctor": Command(
            "installation:doctor",
            "Find what is wrong here, and name the command that repairs it: sandbox, guard, engines, leftovers.",
            "--fix --json",
        ),
        "config": Command(
            "config:config",
            "Show what is configured, or set a key: for yourself, or the team.",
            "--team --global --unset --json",
            words="key",
            is_long=True,
        ),
        "init": Command(
            "installation:init",
            "Install the push guard: no commit of a run is pushed before it has landed.",
            "--undo",
        ),
        "demo": Command(
            "rehearsals:demo",
            "Make a small Python project and run the flow `build` on it, scripted, so that no model is needed.",
            "--all",
        ),
        "completion": Command(
            "completion:completion",
            'Print the completion of a shell, for git swarm and git-swarm: eval "$(git swarm completion bash)".',
            words="shell",
        ),
        "flows": Group(
            "List, show and check flows.",
            {
                "list": Command(
                    "flows:list_flows", "Flows by id: bundled ones, and yours from .swarm/flows.", "--json"
                ),
                "show": Command(
                    "flows:show_flow", "The steps of a flow and where each leads.", "--json", words="flow"
                ),
                "validate": Command(
                    "flows:validate_flows",
                    "Check flows, and the sidequests of every run; without names also stations, templates, policy.",
                    words="flow",
                ),
                "compile": Command(
                    "flows:compile_step",
                    "The prompt of a step, as an agent gets it at the start of a run; and what comes with it.",
                    "--economy --json",
                    words="flow",
                ),
                "graph": Command(
                    "flows:graph",
                    "Draw a flow: its steps from top to bottom, its loops beside them.",
                    "--mermaid",
                    words="flow",
                ),
            },
        ),
        "stations": Group(
            "List, show and check stations.",
            {
                "list": Command(
                    "flows:list_stations",
                    "Stations by id: bundled ones, and yours from .swarm/flows/stations.",
                    "--json",
                ),
                "show": Command(
                    "flows:show_station",
                    "A station's role, its rules, and what it reads and writes.",
                    "--json",
                    words="station",
                ),
                "validate": Command(
                    "flows:validate_stations", "Check stations; every problem with file and line.", words="station"
                ),
            },
        ),
        "db": Group(
            "All runs as tables, for queries in SQL (needs DuckDB: pip install 'git-swarm[analytics]').",
            {
                "rebuild": Command("run_tables:rebuild", "Rebuild the projection from git, from scratch.", "--out="),
                "refresh": Command(
                    "run_tables:refresh", "Bring the projection up to date; the other db commands do so themselves."
                ),
                "query": Command(
                    "run_tables:query",
                    "Query all runs in SQL; the projection is brought up to date first.",
                    "--live --json",
                    is_long=True,
                ),
                "path": Command(
                    "run_tables:path", 'The projection\'s file, brought up to date: duckdb "$(git swarm db path)".'
                ),
            },
        ),
        "wisdom": Group(
            "What runs learned, and what they propose to change.",
            {
                "list": Command(
                    "lessons:list_wisdom", "Lessons over all runs, and the proposals that are open.", "--all --json"
                ),
                "show": Command(
                    "lessons:show", "A proposal: why, and its change as a diff against HEAD.", "--diff --json"
                ),
                "apply": Command(
                    "proposals:apply",
                    "Commit a proposal in your name on a branch; your checkout stays as it is.",
                    "--branch=",
                ),
                "dismiss": Command("proposals:dismiss", "Dismiss a proposal; -m says why.", "-m= --message="),
            },
        ),
        "fleet": Group(
            "Many runs: here, on workers (pip install 'git-swarm[fleet]'), on Slurm or Kubernetes.",
            {
                "run": Command(
                    "fleet.fleet_run:run",
                    "Execute a run for every entry of a file, or runs of the hub.",
                    "--issues= --flow= --workers= --scheduler= --max-cost= --at-once= --base= --engine= --mode="
                    " --model= --economy --script= --allow-stub --routing= --autopilot --tls-ca= --tls-cert="
                    " --tls-key= --json",
                    words="run",
                ),
                "submit": Command(
                    "fleet.batch:submit",
                    "Give a run for every entry of a file, or runs of the hub, to Slurm or Kubernetes.",
                    "--on= --issues= --flow= --hub= --slots= --dir= --image= --secret= --print --base= --engine="
                    " --mode= --model= --economy --script= --allow-stub --routing= --autopilot",
                    words="run",
                ),
                "status": Command(
                    "fleet.fleet_status:status",
                    "How the runs on the hub stand; no scheduler is asked, and none needs to live.",
                    "--issues= --flow= --json",
                    is_long=True,
                ),
                "serve": Command(
                    "fleet.cluster:serve",
                    "Run a scheduler until Ctrl-C: it gives runs to workers, and forgets everything when it ends.",
                    "--host= --port= --tls-ca= --tls-cert= --tls-key=",
                ),
                "work": Command(
                    "fleet.cluster:work",
                    "Execute runs that a scheduler gives, each in a process and a worktree of its own, until Ctrl-C.",
                    "--slots= --dir= --host= --tls-ca= --tls-cert= --tls-key=",
                ),
            },
        ),
        "policy": Group(
            "What agents may and may not do.",
            {
                "explain": Command(
                    "policy_rules:explain",
                    "Say whether an agent may run a command: the first word is allow, deny or rewrite.",
                    "--station= --tool= --json",
                ),
                "rules": Command(
                    "policy_rules:rules", "The classes of what is refused, with what to do instead.", "--json"
                ),
            },
        ),
    },
)
