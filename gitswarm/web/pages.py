"""What each address answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

from jinja2 import Environment
from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gitswarm.cli.compare import ROWS, Compared
from gitswarm.cli.live_events import step_label
from gitswarm.cli.run_report import report_of
from gitswarm.cli.runs import state_word
from gitswarm.cli.transcript import transcript_lines
from gitswarm.errors import NotFoundError, SwarmError, UsageError
from gitswarm.ledger.finding import find_run, find_step
from gitswarm.web.admission import Admission, Keys
from gitswarm.web.cut_diff import file_diffs, git_diff, whole_file
from gitswarm.web.rendering import templates
from gitswarm.web.run_list import Filter, run_list
from gitswarm.web.run_page import TABS, first_shown, run_page, step_detail
from gitswarm.web.site import CommandAnswer, Site, word
from gitswarm.web.stream import Cursor, list_messages, list_stamp, run_messages

Form = Mapping[str, str]

_HERE = Path(__file__).parent
_STATUS: Mapping[type[Exception], HTTPStatus] = {
    NotFoundError: HTTPStatus.NOT_FOUND,
    UsageError: HTTPStatus.BAD_REQUEST,
}
_MOST_POSTED = 1_000_000
_LONGEST_FIELD = 130_000
"""In bytes: Linux takes no argument of more than 128 KiB, and a field is one, with its name."""

TWINS: Mapping[str, tuple[str, ...]] = {
    "/runs.json": ("list",),
    "/runs/{run}.json": ("status", "{run}"),
    "/runs/{run}/log.json": ("log", "{run}"),
    "/runs/{run}/cost.json": ("cost", "{run}"),
    "/runs/{run}/events.jsonl": ("events", "{run}"),
    "/runs/{run}/steps/{step:path}/transcript.json": ("transcript", "{step}", "--run={run}"),
    "/runs/{run}/steps/{step:path}.json": ("show", "{step}", "--run={run}"),
    "/flows.json": ("flows", "list"),
}
"""Address → the command whose `--json` it is, byte by byte."""


def _rollback(site: Site, run: str, form: Form) -> CommandAnswer:
    if form.get("undo"):
        return site.carry_out("rollback", "--undo", f"--run={run}")
    return site.carry_out("rollback", word(form.get("step", ""), "step"), f"--run={run}", *_flags(form, "dry-run"))


def _fork(site: Site, run: str, form: Form) -> CommandAnswer:
    step = word(form.get("step", ""), "step")
    return site.execute(run, "fork", step, f"--run={run}", *_options(form, "engine"))


def _resume(site: Site, run: str, form: Form) -> CommandAnswer:
    """Also the answer to a question."""
    words = (*_options(form, "message", "max-cost"), *_accepted(form), *_flags(form, "approve", "adopt"))
    return site.execute(run, "resume", run, *words)


def _land(site: Site, run: str, form: Form) -> CommandAnswer:
    words = (*_options(form, "message", "strategy"), *_flags(form, "trust-hooks", "dry-run"))
    return site.carry_out("land", run, *words)


ACTIONS: Mapping[str, Callable[[Site, str, Form], CommandAnswer]] = {
    "pause": lambda site, run, form: site.carry_out("pause", run, *_flags(form, "now")),
    "stop": lambda site, run, form: site.carry_out("stop", run, *_flags(form, "now")),
    "verify": lambda site, run, _form: site.carry_out("verify", run),
    "approve": lambda site, run, form: site.carry_out("approve", run, *_options(form, "message"), *_accepted(form)),
    "reject": lambda site, run, form: site.carry_out("approve", run, "--reject", *_options(form, "message")),
    "land": _land,
    "resume": _resume,
    "rollback": _rollback,
    "fork": _fork,
}


def start_run(site: Site, form: Form) -> CommandAnswer:
    """A run in the background."""
    flows = [word(each, "flow") for each in form.get("flow", "").split()]
    options = _options(form, "message", "engine", "mode", "max-cost")
    answer = site.carry_out("start", *flows, "--detach", *options, *_flags(form, "economy"))
    run = answer.text.partition(" ")[0] if answer.is_done else None
    return CommandAnswer(answer.line, answer.is_done, answer.text, run)


def _options(form: Form, *names: str) -> list[str]:
    return [f"--{name}={text}" for name in names if (text := form.get(name, "").strip())]


def _flags(form: Form, *names: str) -> list[str]:
    return [f"--{name}" for name in names if form.get(name)]


def _accepted(form: Form) -> list[str]:
    """Concerns that may stay, each with a field for the reason."""
    named = ((name.removeprefix("accept:"), why.strip()) for name, why in form.items() if name.startswith("accept:"))
    return [f"--accept={concern}={why}" for concern, why in named if why]


def application(site: Site, keys: Keys, is_over: Callable[[], bool]) -> Starlette:
    """
    :param is_over: the server is about to end; streams end then.
    """
    pages = Pages(site, templates(), is_over)
    twins = [Route(path, pages.twin(command)) for path, command in TWINS.items()]
    routes = [
        Route("/", pages.runs),
        *twins,
        Route("/compare", pages.compare),
        Route("/compare.json", pages.compare_json),
        Route("/start", pages.start),
        Route("/start", pages.begin, methods=["POST"]),
        Route("/stream", pages.list_stream),
        Route("/runs/{run}", pages.run),
        Route("/runs/{run}/stream", pages.run_stream),
        Route("/runs/{run}/diff", pages.diff),
        Route("/runs/{run}/files/{number:int}", pages.file),
        Route("/runs/{run}/steps/{step:int}/files/{number:int}", pages.file),
        Route("/runs/{run}/{action}", pages.act, methods=["POST"]),
        Route("/api/runs/{run}/flows/{flow}/steps/{step}/transcript", pages.transcript),
        Mount("/static", StaticFiles(directory=_HERE / "static")),
    ]
    failures = {SwarmError: pages.failed, HTTPException: pages.missing}
    return Starlette(routes=routes, middleware=[Middleware(Admission, keys=keys)], exception_handlers=failures)


class Pages(Struct, frozen=True):
    site: Site
    templates: Environment
    is_over: Callable[[], bool]

    def runs(self, request: Request) -> Response:
        wanted = Filter.of(request.query_params)
        repository = self.site.reader()
        stamp = list_stamp(repository)
        found = run_list(repository, wanted)
        flows = sorted({each.flow for each in found.runs} | ({wanted.flow} if wanted.flow else set()))
        states = sorted({state_word(each) for each in found.runs} | ({wanted.state} if wanted.state else set()))
        return self._page(
            "list.html",
            listed=found,
            wanted=wanted,
            flows=flows,
            states=states,
            stamp=stamp,
            folder=repository.main_folder,
        )

    def run(self, request: Request) -> Response:
        query = request.query_params
        opened = self.site.opened(request.path_params["run"])
        step, tab = query.get("step"), query.get("tab", TABS[0])
        detail = step_detail(opened, step or first_shown(opened), tab, everything=query.get("all") == "1")
        of_step = detail.record.flow if detail is not None and step is not None else None
        page = run_page(opened, query.get("flow") or of_step)
        graphs = [(page.flow, page.graph)]
        return self._page("run.html", page=page, graphs=graphs, details=[detail], detail=detail, step=step, tabs=TABS)

    def diff(self, request: Request) -> Response:
        """What the whole run changed."""
        opened = self.site.opened(request.path_params["run"])
        changed = file_diffs(opened.repository, opened.state.base, opened.state.tip)
        command = shlex.join(["git", *git_diff(opened.state.base[:12], opened.state.tip[:12])])
        run = opened.layout.run_id
        return self._page("diff.html", run=run, changed=changed, command=command)

    def file(self, request: Request) -> Response:
        """One file of what a step or the run changed, whole, as plain text."""
        opened, step = self.site.opened(request.path_params["run"]), request.path_params.get("step")
        record = find_step(opened.repository, opened.state, str(step)) if step is not None else None
        ends = (record.parent, record.commit) if record is not None else (opened.state.base, opened.state.tip)
        found = whole_file(opened.repository, *ends, request.path_params["number"])
        return self._page("file.html", file=found, run=opened.layout.run_id)

    def compare(self, request: Request) -> Response:
        runs = list(dict.fromkeys(request.query_params.getlist("run")))
        if len(runs) != 2:
            raise UsageError("choose two runs", hint="git swarm compare RUN RUN")
        both = [self.site.opened(run) for run in runs]
        found = [Compared(each, report_of(each)) for each in both]
        rows = [(name, [cell(run) for run in found]) for name, cell in ROWS]
        sides = [
            {step_label(each.flow, each.step, each.execution.iteration): each for each in run.state.steps}
            for run in both
        ]
        steps = [(name, [side.get(name) for side in sides]) for name in dict.fromkeys([*sides[0], *sides[1]])]
        command = shlex.join(["git", *git_diff(*(run.state.tip[:12] for run in both))])
        runs = [each.run_id for each in found]
        return self._page("compare.html", runs=runs, rows=rows, steps=steps, command=command)

    def compare_json(self, request: Request) -> Response:
        runs = [word(run, "run") for run in request.query_params.getlist("run")]
        return self._twin("compare", *runs, "--json")

    def twin(self, command: Sequence[str]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            given = {name: word(str(text), name) for name, text in request.path_params.items()}
            return self._twin(*(each.format(**given) for each in command), "--json")

        return answer

    def _twin(self, *words: str) -> Response:
        """What the command says, or its refusal."""
        done = self.site.answer(*words)
        if done.returncode == 0:
            return Response(done.stdout, media_type="application/json")
        message, _hint, hint = done.stderr.strip().partition("\nhint: ")
        status = HTTPStatus.BAD_REQUEST if done.returncode == UsageError.exit_code else HTTPStatus.NOT_FOUND
        return JSONResponse({"error": message.removeprefix("git-swarm: "), "hint": hint}, status)

    def transcript(self, request: Request) -> Response:
        """The contract of seeds 002: one shape, whatever the engine."""
        given = request.path_params
        repository = self.site.reader()
        try:
            layout = find_run(repository, given["run"])
        except NotFoundError:
            return JSONResponse({"detail": "Run not found"}, HTTPStatus.NOT_FOUND)
        opened = self.site.opened(layout.run_id)
        try:
            record = find_step(opened.repository, opened.state, f"{given['flow']}/{given['step']}")
        except NotFoundError:
            return JSONResponse({"detail": "Transcript not found"}, HTTPStatus.NOT_FOUND)
        messages = [dict(line) for line in transcript_lines(opened, record)]
        return JSONResponse(
            {"run_id": layout.run_id, "flow_key": record.flow, "step_id": record.step, "messages": messages}
        )

    def start(self, _request: Request) -> Response:
        flows = json.loads(self.site.answer("flows", "list", "--json").stdout)
        engines = json.loads(self.site.answer("engines", "--json").stdout)
        return self._page("start.html", flows=flows, engines=engines)

    async def begin(self, request: Request) -> Response:
        form = await _form(request)
        return self._answered(request, await run_in_threadpool(start_run, self.site, form))

    async def act(self, request: Request) -> Response:
        action = ACTIONS.get(request.path_params["action"])
        if action is None:
            raise NotFoundError(f"there is no action '{request.path_params['action']}'", hint="git swarm -h")
        form = await _form(request)
        run = word(request.path_params["run"], "run")
        return self._answered(request, await run_in_threadpool(action, self.site, run, form))

    def list_stream(self, request: Request) -> Response:
        known = _last_id(request) or list_stamp(self.site.reader())
        return _stream(list_messages(self.site.reader, known, self.is_over))

    def run_stream(self, request: Request) -> Response:
        layout = find_run(self.site.reader(), request.path_params["run"])
        return _stream(run_messages(self.site.reader, layout, Cursor.of(_last_id(request)), self.is_over))

    def failed(self, request: Request, error: Exception) -> Response:
        """What is wrong, and the next command to type."""
        hint = error.hint if isinstance(error, SwarmError) else ""
        status = _STATUS.get(type(error), HTTPStatus.CONFLICT)
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": str(error), "hint": hint}, status)
        return self._page("error.html", status, message=str(error), hint=hint)

    def missing(self, _request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
        return self._page("error.html", status, message="there is no such page", hint="git swarm web")

    def _answered(self, request: Request, answer: CommandAnswer) -> Response:
        """What a command said: with htmx only that, else as a page."""
        status = HTTPStatus.OK if answer.is_done else HTTPStatus.CONFLICT
        alone = request.headers.get("hx-request") is not None
        return self._page("answer.html" if alone else "answered.html", status, answer=answer)

    def _page(self, template: str, status: int = HTTPStatus.OK, **about: object) -> Response:
        return HTMLResponse(self.templates.get_template(template).render(**about), status)


def _last_id(request: Request) -> str:
    """A browser that comes back says it in a header; the first time it stands in the address."""
    return request.headers.get("last-event-id") or request.query_params.get("after", "")


def _stream(messages: AsyncIterator[str]) -> Response:
    return StreamingResponse(messages, media_type="text/event-stream")


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; of one that stands there twice the last.

    :raises UsageError: it is too long, or holds what no command line can.
    """
    body, too_long = b"", UsageError("that is too long for a form", hint="git swarm start FLOW --issue FILE")
    async for part in request.stream():
        body += part
        if len(body) > _MOST_POSTED:
            raise too_long
    fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    found = {name: values[-1] for name, values in fields.items()}
    if any("\0" in name + text for name, text in found.items()):
        raise UsageError("a form has no NUL in it", hint="git swarm -h")
    if any(len((name + text).encode()) > _LONGEST_FIELD for name, text in found.items()):
        raise too_long
    return found
