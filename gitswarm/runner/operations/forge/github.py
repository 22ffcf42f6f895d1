"""GitHub, through `gh`."""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.runner.operations.forge.program import (
    CheckState,
    CiCheck,
    Fields,
    ForgeCli,
    ForgeError,
    PullRequest,
    Remark,
)

_PAGE = "per_page=100"
_CONCLUSIONS: dict[str, CheckState] = {"success": "passed", "neutral": "passed", "skipped": "skipped"}
_STATUSES: dict[str, CheckState] = {"success": "passed", "pending": "pending"}


class GitHub(Struct, frozen=True):
    """One repository there. `path`: OWNER/REPO."""

    program: ForgeCli
    path: str

    @property
    def _repository(self) -> str:
        return f"{self.program.host}/{self.path}"

    def account(self) -> str:
        try:
            return self.program.one("user").text("login")
        except ForgeError:
            return ""  # a token of an app is nobody's

    def find(self, branch: str) -> PullRequest | None:
        owner = self.path.partition("/")[0]
        # With its owner: anybody may open a request from a branch of this name in a repository of their own.
        query = f"state=all&head={quote(f'{owner}:{branch}')}&{_PAGE}"
        found = self.program.lists(f"repos/{self.path}/pulls?{query}")
        requests = [_request(fields) for fields in found if fields.inner("head").text("ref") == branch]
        return max(requests, key=lambda request: (request.is_open, request.number), default=None)

    def create(self, branch: str, target: str | None, title: str, body: str) -> None:
        base = ("--base", target) if target is not None else ()
        words = ("--draft", "--head", branch, *base, "--title", title, "--body-file", "-")
        self.program.run("pr", "create", "--repo", self._repository, *words, stdin=body)

    def edit(self, request: PullRequest, title: str, body: str, *, draft: bool) -> None:
        if (request.title, request.body) != (title, body):
            path = f"repos/{self.path}/pulls/{request.number}"
            self.program.api(path, "PATCH", {"title": title, "body": body})
        if request.is_draft != draft:
            undo = ("--undo",) if draft else ()
            self.program.run("pr", "ready", str(request.number), "--repo", self._repository, *undo)

    def remarks(self, request: PullRequest) -> list[Remark]:
        pulls, issues = (f"repos/{self.path}/{what}/{request.number}" for what in ("pulls", "issues"))
        comments = self.program.lists(f"{issues}/comments?{_PAGE}")
        reviews = self.program.lists(f"{pulls}/reviews?{_PAGE}")
        threads = self.program.lists(f"{pulls}/comments?{_PAGE}")
        return [
            *(_remark(fields, "comment") for fields in comments),
            *(_review(fields) for fields in reviews if _says(fields)),
            *(_thread(fields) for fields in threads),
        ]

    def answer(self, request: PullRequest, remark: Remark, body: str) -> None:
        if not remark.thread:
            self.comment(request, f"About {remark.url}\n\n{body}" if remark.url else body)
            return
        path = f"repos/{self.path}/pulls/{request.number}/comments/{remark.thread}/replies"
        self.program.api(path, "POST", {"body": body})

    def comment(self, request: PullRequest, body: str) -> None:
        path = f"repos/{self.path}/issues/{request.number}/comments"
        self.program.api(path, "POST", {"body": body})

    def rewrite(self, request: PullRequest, remark: Remark, body: str) -> None:
        del request
        path = f"repos/{self.path}/issues/comments/{remark.number}"
        self.program.api(path, "PATCH", {"body": body})

    def checks(self, commit: str) -> list[CiCheck] | None:
        where = f"repos/{self.path}/commits/{commit}"
        runs = self.program.known(f"{where}/check-runs?{_PAGE}", "check_runs")
        statuses = self.program.known(f"{where}/status?{_PAGE}", "statuses")
        if runs is None or statuses is None:
            return None
        return [*map(_check, runs), *map(_status, statuses)]


def _request(fields: Fields) -> PullRequest:
    return PullRequest(
        number=fields.number("number") or 0,
        url=fields.text("html_url"),
        is_open=fields.text("state") == "open",
        is_draft=fields.flag("draft"),
        title=fields.text("title"),
        body=fields.text("body").replace("\r\n", "\n"),
        author=fields.inner("user").text("login"),
        head=fields.inner("head").text("sha"),
    )


def _remark(fields: Fields, kind: str) -> Remark:
    number = fields.number("id") or 0
    author, text = fields.inner("user").text("login"), fields.text("body")
    return Remark(f"{kind}-{number}", number, author, text, kind, url=fields.text("html_url"))


def _says(review: Fields) -> bool:
    """A review that only holds its comments says nothing by itself."""
    return bool(review.text("body")) or review.text("state") in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")


def _review(fields: Fields) -> Remark:
    remark = _remark(fields, "review")
    return replace(remark, text=f"{fields.text('state')}: {remark.text}".removesuffix(": "))


def _thread(fields: Fields) -> Remark:
    """An answer to an answer goes to the comment that began the thread: GitHub knows no other."""
    first = fields.number("in_reply_to_id") or fields.number("id") or 0
    line = fields.number("line") or fields.number("original_line")
    return replace(_remark(fields, "thread"), path=fields.text("path") or None, line=line, thread=str(first))


def _check(fields: Fields) -> CiCheck:
    state: CheckState = "pending"
    if fields.text("status") == "completed":
        state = _CONCLUSIONS.get(fields.text("conclusion"), "failed")
    return CiCheck(fields.text("name"), state, fields.text("html_url"))


def _status(fields: Fields) -> CiCheck:
    return CiCheck(fields.text("context"), _STATUSES.get(fields.text("state"), "failed"), fields.text("target_url"))
