"""Who gets to see the page."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from gitswarm.web.admission import Keys
from tests.conftest import Project
from tests.projects import new_project
from tests.web.browsing import HOST, stranger, visitor


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return new_project(tmp_path_factory.mktemp("admission"))


def log_in(client: TestClient, keys: Keys) -> tuple[int, str]:
    answer = client.get(keys.address.removeprefix(HOST) + "&q=x")
    return answer.status_code, answer.headers.get("location", "")


def test_the_address_lets_one_browser_in_and_is_used_up(empty: Project) -> None:
    client, keys = stranger(empty)
    used = keys.address
    assert client.get("/").status_code == 401
    assert log_in(client, keys) == (303, "/?q=x")
    said = client.cookies.jar
    (cookie,) = said
    assert (cookie.name, cookie.has_nonstandard_attr("HttpOnly"), cookie.get_nonstandard_attr("SameSite")) == (
        "git-swarm-8765",
        True,
        "strict",
    )
    assert client.get("/").status_code == 200
    client.cookies.clear()
    assert client.get(used.removeprefix(HOST)).status_code == 401
    assert log_in(client, keys) == (303, "/?q=x"), "the next address is another one"
    assert keys.address != used


def test_a_login_leads_to_no_other_site(empty: Project) -> None:
    answer = visitor(empty).get(f"{HOST}//evil.example/?token=x&q=x")
    assert (answer.status_code, answer.headers["location"]) == (303, "/evil.example/?q=x")


@pytest.mark.parametrize("address", ["/runs/%00", "/?q=%00", "/runs/x?step=%00"])
def test_an_address_with_nul_is_refused(empty: Project, address: str) -> None:
    assert visitor(empty).get(address).status_code == 400


@pytest.mark.parametrize("address", ["/", "/static/page.js", "/stream", "/runs.json"])
def test_without_the_cookie_nothing_is_served(empty: Project, address: str) -> None:
    client, _keys = stranger(empty)
    assert client.get(address).status_code == 401
    assert client.get(address, headers={"Cookie": "git-swarm-8765=guess"}).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost:8765", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", ""]
)
@pytest.mark.parametrize("address", ["/", "/static/page.js", "/stream"])
def test_a_name_that_was_bound_to_loopback_is_no_name_of_the_page(empty: Project, host: str, address: str) -> None:
    client = visitor(empty)
    assert client.get(address, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {},
    ],
)
def test_another_site_presses_no_button(empty: Project, headers: dict[str, str]) -> None:
    client = visitor(empty)
    assert client.post("/start", data={"flow": "build"}, headers=headers).status_code == 403
    assert empty.json("list") == []


def test_another_site_reads_nothing_and_may_link(empty: Project) -> None:
    client = visitor(empty)
    other = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/runs.json", headers=other).status_code == 403
    link = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200


@pytest.mark.parametrize("address", ["/", "/static/page.js", "/nowhere"])
def test_every_answer_says_what_a_browser_may_do_with_it(empty: Project, address: str) -> None:
    headers = visitor(empty).get(address).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
