"""A small agent for the command line: it asks before each tool call, does it, and says so in JSON lines.

It has no model. Its orders are lines of the prompt, or of the file that ERRAND_ORDERS names, one JSON object each:

    errand: {"write": {"file_path": "hello.txt", "content": "Hello"}}
    errand: {"run": "python -m pytest -q"}
    errand: {"say": "the tests pass"}
    errand: {"hand_over": {"status": "VERIFIED", "summary": "said hello"}}

Standard input: {"prompt": …}, then an answer to each question: {"allow": true, "input": {…}} or {"allow": false,
"why": …}. Standard output: {"say": …}, {"ask": {"tool", "input"}}, {"did": {"ok", "output"}}, {"used": {"prompt",
"completion", "cost_usd"}} and at last {"hand_over": {…}}.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

VERSION = "0.1"


def tell(**said: object) -> None:
    print(json.dumps(said), flush=True)


def hear() -> dict:
    return json.loads(sys.stdin.readline() or "{}")


def orders(prompt: str) -> list[dict]:
    named = os.environ.get("ERRAND_ORDERS")
    lines = (Path(named).read_text("utf-8") if named else prompt).splitlines()
    return [
        json.loads(line.strip().removeprefix("errand: ")) for line in lines if line.strip().startswith("errand: ")
    ]


def use(tool: str, given: dict) -> None:
    """A tool call, if it is allowed, with the input that is allowed."""
    tell(ask={"tool": tool, "input": given})
    answer = hear()
    if not answer.get("allow"):
        return
    given = answer.get("input") or given
    if tool == "Write":
        path = Path(given["file_path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given["content"], encoding="utf-8")
        tell(did={"ok": True, "output": f"{len(given['content'])} characters"})
    else:
        done = subprocess.run(given["command"], shell=True, capture_output=True, text=True, check=False)
        tell(did={"ok": done.returncode == 0, "output": done.stdout + done.stderr})


def obey(order: dict) -> None:
    ((what, said),) = order.items()
    if what == "write":
        use("Write", said)
    elif what == "run":
        use("Bash", {"command": said})
    elif what == "noise":  # from here on orders go wrong, so that the engine can be tested
        print(said, flush=True)
    elif what == "exit":
        sys.exit(said)
    elif what == "sleep":
        time.sleep(said)
    else:
        tell(**{what: said})


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"errand {VERSION}")
        return
    for order in orders(hear().get("prompt", "")):
        obey(order)


if __name__ == "__main__":
    main()
