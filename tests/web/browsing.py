"""The page in the process of the test: a client that has logged in, and one that has not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from starlette.testclient import TestClient

from gitswarm.web.admission import Keys
from gitswarm.web.pages import application
from gitswarm.web.site import Site
from tests.conftest import Project

PORT = 8765
HOST = f"http://127.0.0.1:{PORT}"
_UIID = re.compile(r'data-uiid="([^"]*)"')


def stranger(project: Project, is_over: Callable[[], bool] = bool) -> tuple[TestClient, Keys]:
    """A browser without a cookie, and what would let it in. `is_over`: ends streams; by default never."""
    keys = Keys(PORT, lambda _address: None)
    app = application(Site(project.root, project.env), keys, is_over)
    return TestClient(app, base_url=HOST, follow_redirects=False), keys


def visitor(project: Project, is_over: Callable[[], bool] = bool) -> TestClient:
    client, keys = stranger(project, is_over)
    assert client.get(keys.address.removeprefix(HOST)).status_code == 303
    return client


def press(client: TestClient, address: str, form: Mapping[str, str]) -> tuple[int, str]:
    """A button, as a browser without JavaScript sends it: the status, and what the page says."""
    answer = client.post(address, data=dict(form), headers={"Origin": HOST})
    return answer.status_code, answer.text


def uiids(page: str) -> list[str]:
    return _UIID.findall(page)
