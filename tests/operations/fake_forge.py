"""A `gh` and a `glab`: what they are asked is recorded, what they change lies in one JSON file.

Its name decides which of the two it is. `FAKE_FORGE` names the file. `kill`: [n, when]: the n-th call that changes
something ends the process that asked with SIGKILL, before or after the change. `broken`: what a word of a call fails
with. Needs nothing but Python and git.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs

STATE = Path(os.environ.get("FAKE_FORGE", "/dev/null"))
NAME = Path(sys.argv[0]).name


def fail(said: str) -> NoReturn:
    sys.stderr.write(f"{NAME}: {said}\n")
    sys.exit(1)


def option(words: list[str], name: str) -> str | None:
    return words[words.index(name) + 1] if name in words else None


class Fake:
    def __init__(self, words: list[str], stdin: str) -> None:
        self.words = words
        self.stdin = stdin
        self.state: dict[str, Any] = json.loads(STATE.read_text())
        self.state["calls"].append([*words, stdin] if stdin else words)
        self.save()

    def save(self) -> None:
        STATE.with_suffix(".new").write_text(json.dumps(self.state, indent=1))
        STATE.with_suffix(".new").replace(STATE)

    def head(self, branch: str) -> str:
        asked = ["git", f"--git-dir={self.state['remote']}", "rev-parse", "--verify", "-q", f"refs/heads/{branch}"]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()

    def change(self, about: str, **values: Any) -> None:
        """One change; perhaps the last thing that its caller sees."""
        self.state["changes"].append(about)
        number, when = self.state.get("kill") or (0, "")
        deadly = len(self.state["changes"]) == number
        if deadly:
            self.state["kill"] = None
        if deadly and when == "before":
            self.state["changes"].pop()
            self.save()
            self.kill()
        for name, value in values.items():
            self.state[name] = value
        self.save()
        if deadly:
            self.kill()

    def kill(self) -> NoReturn:
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(9)

    def next_id(self) -> int:
        return 1000 + len(self.state["changes"])

    def said(self, **more: Any) -> dict[str, Any]:
        return {"id": self.next_id(), "user": self.state["account"], **more}

    def add(self, about: str, kind: str, **more: Any) -> None:
        self.change(about, **{kind: [*self.state[kind], self.said(**more)]})

    def edit(self, about: str, kind: str, number: str, **more: Any) -> None:
        key = "number" if kind == "requests" else "id"
        changed = [item | more if str(item[key]) == number else item for item in self.state[kind]]
        self.change(about, **{kind: changed})

    def create(self, branch: str, base: str | None, title: str, body: str) -> None:
        if not self.head(branch):
            fail(f"Head sha can't be blank: no branch {branch}")
        if any(each["branch"] == branch and each["state"] == "open" for each in self.state["requests"]):
            fail(f'a pull request for branch "{branch}" already exists')
        if "--draft" not in self.words:
            fail("no draft")
        request = {"number": 7, "branch": branch, "base": base, "title": title, "body": body}
        found = [*self.state["requests"], {**request, "draft": True, "state": "open", "user": self.state["account"]}]
        self.change("create", requests=found)
        sys.stdout.write("https://forge.test/o/r/pull/7\n")

    def checks(self) -> list[dict[str, Any]]:
        """What the next look at the checks shows; the last one repeats."""
        looks = self.state["checks"]
        found: list[dict[str, Any]] = looks.pop(0) if len(looks) > 1 else looks[0]
        self.save()
        return found


Handler = Callable[[Fake, re.Match[str], Any], object]


def github(fake: Fake, words: list[str]) -> object:
    if words[:2] == ["pr", "create"]:
        fake.create(
            option(words, "--head") or "", option(words, "--base"), option(words, "--title") or "", fake.stdin
        )
        return None
    if words[:2] == ["pr", "ready"]:
        fake.edit("undraft", "requests", words[2], draft="--undo" in words)
        return None
    return api(fake, words, "repos/o/r/", GITHUB)


def api(fake: Fake, words: list[str], prefix: str, routes: dict[str, Handler]) -> object:
    """What the first route answers that fits `METHOD path?query`; below `prefix` but for the account."""
    payload = json.loads(fake.stdin) if fake.stdin else {}
    asked = f"{option(words, '--method')} {words[-1].removeprefix(prefix)}"
    for route, handler in routes.items():
        found = re.fullmatch(route, asked)
        if found is not None and (asked == "GET user" or words[-1].startswith(prefix)):
            return handler(fake, found, payload)
    fail("Not Found (HTTP 404)")


def gh_pulls(fake: Fake, found: re.Match[str], _payload: Any) -> object:
    owner, _colon, branch = parse_qs(found[1])["head"][0].partition(":")
    assert owner == "o"
    return [as_pull(fake, each) for each in fake.state["requests"] if each["branch"] == branch]


def gh_said(fake: Fake, found: re.Match[str], _payload: Any) -> object:
    kind = {"issues/comments": "comments", "pulls/comments": "threads"}.get(f"{found[1]}/{found[2]}", found[2])
    page = "https://forge.test/o/r/pull/7#"
    items = fake.state[kind]
    return [{**item, "user": {"login": item["user"]}, "html_url": f"{page}{item['id']}"} for item in items]


def reply(fake: Fake, found: re.Match[str], payload: Any) -> None:
    fake.add("answer", "threads", in_reply_to_id=int(found[1]), path="src/app.py", line=1, **payload)


GITHUB: dict[str, Handler] = {
    r"GET user": lambda fake, _found, _payload: {"login": fake.state["account"]},
    r"GET pulls\?(.*)": gh_pulls,
    r"PATCH pulls/(\d+)": lambda fake, found, payload: fake.edit("edit", "requests", found[1], **payload),
    r"GET (issues|pulls)/\d+/(\w+)\?.*": gh_said,
    r"GET commits/\w+/([\w-]+)\?.*": lambda fake, found, _payload: commit_checks(fake, found[1]),
    r"POST issues/\d+/comments": lambda fake, _found, payload: fake.add("comment", "comments", **payload),
    r"PATCH issues/comments/(\d+)": lambda fake, found, payload: fake.edit(
        "rewrite", "comments", found[1], **payload
    ),
    r"POST pulls/\d+/comments/(\d+)/replies": reply,
}


def commit_checks(fake: Fake, kind: str) -> object:
    if fake.state["checks"] is None:
        fail("No commit found for SHA (HTTP 422)")
    if kind == "check-runs":
        return {"check_runs": fake.checks()}
    return {"state": "success", "statuses": []}


def as_pull(fake: Fake, each: dict[str, Any]) -> dict[str, Any]:
    return {
        "number": each["number"],
        "html_url": f"https://forge.test/o/r/pull/{each['number']}",
        "state": each["state"],
        "draft": each["draft"],
        "title": each["title"],
        "body": each["body"],
        "user": {"login": each["user"]},
        "head": {"ref": each["branch"], "sha": fake.head(each["branch"])},
    }


def gitlab(fake: Fake, words: list[str]) -> object:
    if words[:2] == ["mr", "create"]:
        branch, base, title, body = (
            option(words, f"--{name}") or "" for name in ("source-branch", "target-branch", "title", "description")
        )
        fake.create(branch, base, title, body)
        return None
    return api(fake, words, "projects/o%2Fr/", GITLAB)


def gl_requests(fake: Fake, found: re.Match[str], _payload: Any) -> object:
    branch = parse_qs(found[1])["source_branch"][0]
    return [as_merge(fake, each) for each in fake.state["requests"] if each["branch"] == branch]


def gl_edit(fake: Fake, found: re.Match[str], payload: Any) -> None:
    draft, title = payload["title"].startswith("Draft: "), payload["title"].removeprefix("Draft: ")
    fake.edit("edit", "requests", found[1], draft=draft, title=title, body=payload["description"])


def gl_statuses(fake: Fake, _found: re.Match[str], _payload: Any) -> object:
    return fake.checks() if fake.state["checks"] is not None else fail("404 Commit Not Found (HTTP 404)")


GITLAB: dict[str, Handler] = {
    r"GET user": lambda fake, _found, _payload: {"username": fake.state["account"]},
    r"GET merge_requests\?(.*)": gl_requests,
    r"PUT merge_requests/(\d+)": gl_edit,
    r"GET merge_requests/\d+/discussions\?.*": lambda fake, _found, _payload: [
        *discussions(fake.state["comments"]),
        *discussions(fake.state["threads"]),
    ],
    r"POST merge_requests/\d+/notes": lambda fake, _found, payload: fake.add("comment", "comments", **payload),
    r"PUT merge_requests/\d+/notes/(\d+)": lambda fake, found, payload: fake.edit(
        "rewrite", "comments", found[1], **payload
    ),
    r"POST merge_requests/\d+/discussions/d(\d+)/notes": reply,
    r"GET repository/commits/\w+/statuses\?.*": gl_statuses,
}


def as_merge(fake: Fake, each: dict[str, Any]) -> dict[str, Any]:
    return {
        "iid": each["number"],
        "web_url": f"https://forge.test/o/r/pull/{each['number']}",
        "state": "opened" if each["state"] == "open" else "closed",
        "draft": each["draft"],
        "title": f"Draft: {each['title']}" if each["draft"] else each["title"],
        "description": each["body"],
        "author": {"username": each["user"]},
        "source_branch": each["branch"],
        "source_project_id": 1,
        "target_project_id": 1,
        "sha": fake.head(each["branch"]),
    }


def discussions(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for item in items:
        position = {"new_path": item["path"], "new_line": item["line"]} if "path" in item else {}
        note = {"id": item["id"], "author": {"username": item["user"]}, "body": item["body"], "position": position}
        found.setdefault(item.get("in_reply_to_id") or item["id"], []).append(note)
    return [{"id": f"d{first}", "notes": notes} for first, notes in found.items()]


def main() -> None:
    stdin = "" if sys.stdin.isatty() else sys.stdin.read()
    fake = Fake(sys.argv[1:], stdin)
    for word, said in fake.state.get("broken", {}).items():
        if word in " ".join(fake.words):
            fail(said)
    answer = github(fake, fake.words) if NAME == "gh" else gitlab(fake, fake.words)
    if isinstance(answer, list) and len(answer) > 1:  # as two pages
        sys.stdout.write(json.dumps(answer[:1]) + json.dumps(answer[1:]))
    elif answer is not None:
        sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
