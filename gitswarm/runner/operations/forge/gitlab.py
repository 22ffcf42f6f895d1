"""GitLab, through `glab`."""

from __future__ import annotations

import re
from urllib.parse import quote

from msgspec import Struct

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
_DRAFT = "Draft: "
_IS_DRAFT = re.compile(r"^\s*(?:\[draft\]|\(draft\)|draft:)\s*", re.IGNORECASE)
_STATES: dict[str, CheckState] = {
    "success": "passed",
    "failed": "failed",
    "canceled": "failed",
    "skipped": "skipped",
    "manual": "skipped",
}


class GitLab(Struct, frozen=True):
    """One project there. `path`: GROUP/…/PROJECT."""

    program: ForgeCli
    path: str

    @property
    def _project(self) -> str:
        return f"projects/{quote(self.path, safe='')}"

    def _requests(self, request: PullRequest) -> str:
        return f"{self._project}/merge_requests/{request.number}"

    def account(self) -> str:
        try:
            return self.program.one("user").text("username")
        except ForgeError:
            return ""  # a token of a job is nobody's

    def find(self, branch: str) -> PullRequest | None:
        path = f"{self._project}/merge_requests?state=all&source_branch={quote(branch, safe='')}&{_PAGE}"
        found = self.program.lists(path)
        own = [fields for fields in found if fields.number("source_project_id") == fields.number("target_project_id")]
        requests = [_request(fields) for fields in own if fields.text("source_branch") == branch]
        return max(requests, key=lambda request: (request.is_open, request.number), default=None)

    def create(self, branch: str, target: str | None, title: str, body: str) -> None:
        base = ("--target-branch", target) if target is not None else ()
        words = ("--draft", "--yes", "--source-branch", branch, *base, "--title", title, "--description", body)
        self.program.run("mr", "create", "--repo", f"https://{self.program.host}/{self.path}", *words)

    def edit(self, request: PullRequest, title: str, body: str, *, draft: bool) -> None:
        if (request.title, request.body, request.is_draft) != (title, body, draft):
            full_title = f"{_DRAFT}{title}" if draft else title
            self.program.api(self._requests(request), "PUT", {"title": full_title, "description": body})

    def remarks(self, request: PullRequest) -> list[Remark]:
        found = self.program.lists(f"{self._requests(request)}/discussions?{_PAGE}")
        return [
            _remark(note, discussion.text("id"), f"{request.url}#note_{note.number('id')}")
            for discussion in found
            for note in discussion.each("notes")
            if not note.flag("system")
        ]

    def answer(self, request: PullRequest, remark: Remark, body: str) -> None:
        path = f"{self._requests(request)}/discussions/{remark.thread}/notes"
        self.program.api(path, "POST", {"body": body})

    def comment(self, request: PullRequest, body: str) -> None:
        self.program.api(f"{self._requests(request)}/notes", "POST", {"body": body})

    def rewrite(self, request: PullRequest, remark: Remark, body: str) -> None:
        self.program.api(f"{self._requests(request)}/notes/{remark.number}", "PUT", {"body": body})

    def checks(self, commit: str) -> list[CiCheck] | None:
        path = f"{self._project}/repository/commits/{commit}/statuses?{_PAGE}"
        found = self.program.known(path)
        return [_check(fields) for fields in found] if found is not None else None


def _request(fields: Fields) -> PullRequest:
    title = fields.text("title")
    return PullRequest(
        number=fields.number("iid") or 0,
        url=fields.text("web_url"),
        is_open=fields.text("state") == "opened",
        is_draft=fields.flag("draft"),
        title=_IS_DRAFT.sub("", title) if fields.flag("draft") else title,
        body=fields.text("description").replace("\r\n", "\n"),
        author=fields.inner("author").text("username"),
        head=fields.text("sha"),
    )


def _remark(note: Fields, discussion: str, url: str) -> Remark:
    number, position = note.number("id") or 0, note.inner("position")
    path = position.text("new_path") or position.text("old_path") or None
    kind = "thread" if path else "comment"
    line = position.number("new_line") or position.number("old_line")
    author = note.inner("author").text("username")
    return Remark(f"{kind}-{number}", number, author, note.text("body"), kind, path, line, discussion, url)


def _check(fields: Fields) -> CiCheck:
    state = _STATES.get(fields.text("status"), "pending")
    if state == "failed" and fields.flag("allow_failure"):
        state = "tolerated"
    return CiCheck(fields.text("name"), state, fields.text("target_url"))
