"""What is taken out of a text, what stays, and what a file of the code may not hold."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitswarm.records.safety import SecretFound, SecretRules
from gitswarm.safety.redact.redactor import Redactor
from tests.safety.redact.corpus import FORMS, SAID, SHAPED, Dice, Planted, harmless, planted
from tests.safety.redact.ordinary import ORDINARY, SURVIVING
from tests.safety.redact.providers import NAMED, SHAPES, made
from tests.tables import table

REDACTOR = Redactor(SecretRules(), {})
PLANTED = planted(500)


def found_in(redactor: Redactor, path: str, content: bytes) -> list[SecretFound]:
    return [suspect.found for suspect in redactor.find_in_code(path, content)]


def test_forty_kinds_are_planted_in_four_forms() -> None:
    kinds = {item.kind.partition("/")[0] for item in PLANTED}
    assert (len(kinds) >= 40, len(PLANTED) >= 500, len(FORMS)) == (True, True, 4)


@table("kind", sorted({item.kind for item in PLANTED}))
def test_a_planted_secret_is_gone(kind: str) -> None:
    left = [item for item in PLANTED if item.kind == kind and _shows(REDACTOR.scrub(item.text), item)]
    assert left == []


def _shows(scrubbed: str, item: Planted) -> bool:
    return item.secret in scrubbed or "[REDACTED:" not in scrubbed


def test_all_of_them_in_one_long_text_are_gone() -> None:
    text = "\n\n".join(line for item in PLANTED for line in ("what a program says: done.", item.text))
    scrubbed = REDACTOR.scrub(text)
    assert [item for item in PLANTED if item.secret in scrubbed] == []
    assert scrubbed.count("what a program says: done.") == len(PLANTED)


def test_all_of_them_in_json_are_gone_and_it_stays_json() -> None:
    value: Any = {"lines": [{"role": "user", "content": item.text} for item in PLANTED], "n": 7, "ok": None}
    scrubbed = REDACTOR.scrub_json(value)
    stored = json.dumps(scrubbed, ensure_ascii=False)
    assert [item.kind for item in PLANTED if item.secret in stored] == []
    assert [line["role"] for line in json.loads(stored)["lines"]] == ["user"] * len(PLANTED)


def test_nothing_harmless_is_eaten() -> None:
    lines = harmless(2_000)
    assert [(line, REDACTOR.scrub(line)) for line in lines if REDACTOR.scrub(line) != line] == []
    text = "\n".join(lines)
    assert REDACTOR.scrub(text) == text


def test_nothing_harmless_is_a_finding_in_code() -> None:
    assert [line for line in harmless(2_000) if found_in(REDACTOR, "a.py", line.encode())] == []


@given(st.lists(st.sampled_from([*(item.text for item in PLANTED), *harmless(90), " ", "\n", '"', "=", ":", "\\n"])))
def test_twice_is_the_same_as_once(parts: list[str]) -> None:
    once = REDACTOR.scrub("".join(parts))
    assert REDACTOR.scrub(once) == once


@given(st.text(max_size=300))
def test_any_text_can_be_scrubbed(text: str) -> None:
    once = REDACTOR.scrub(text)
    assert REDACTOR.scrub(once) == once


def test_what_stands_around_a_secret_stays() -> None:
    token = SHAPED["github-classic"](Dice(1))
    assert REDACTOR.scrub(f"a {token}, b\nc") == "a [REDACTED:github-token], b\nc"


def test_a_private_key_is_one_secret_also_when_its_lines_are_escaped() -> None:
    key = SHAPED["rsa-key"](Dice(2))
    assert REDACTOR.scrub(f"x {key} y") == "x [REDACTED:private-key] y"
    assert REDACTOR.scrub(json.dumps({"k": key})) == '{"k": "[REDACTED:private-key]"}'


def test_a_private_key_without_its_end_is_gone_whole() -> None:
    key = SHAPED["openssh-key"](Dice(3)).partition("-----END")[0]
    assert REDACTOR.scrub(f"x\n{key}") == "x\n[REDACTED:private-key]\n"


def test_a_private_key_with_colours_in_its_first_line_is_gone_whole() -> None:
    key = SHAPED["rsa-key"](Dice(2)).replace("RSA", "\x1b[1mRSA\x1b[0m", 1)
    assert REDACTOR.scrub(f"x\n{key}\ny") == "x\n[REDACTED:private-key]\ny"


def test_how_a_private_key_begins_may_be_mentioned() -> None:
    text = "a file that starts with -----BEGIN RSA PRIVATE KEY----- is a key. And more text follows here.\n"
    assert REDACTOR.scrub(text) == text
    assert found_in(REDACTOR, "README.md", text.encode()) == []


def test_escaped_colour_codes_do_not_hide_a_secret() -> None:
    token = SHAPED["npm"](Dice(4))
    text = f"a {token[:9]}\\u001b[0m{token[9:]} b"
    assert REDACTOR.scrub(text) == "a [REDACTED:npm-token] b"


def test_wrapped_base64_is_read_as_one() -> None:
    token = SHAPED["anthropic"](Dice(5))
    wrapped = base64.encodebytes(f'{{"key": "{token}", "more": "{"x " * 40}"}}'.encode()).decode()
    assert REDACTOR.scrub(f"data:\n{wrapped}") == "data:\n[REDACTED:anthropic-key]\n"


def test_documented_examples_may_go_from_texts_and_are_no_finding_in_code() -> None:
    example = b"aws_access_key_id = AKIAIOSFODNN7EXAMPLE\n"
    assert found_in(REDACTOR, "README.md", example) == []


VALUE = "v4lue-Of_The.Env/7"


@table(
    "text",
    [
        f"it is {VALUE}!",
        "it is v4lue-Of_The.Env%2F7!",
        "it is djRsdWUtT2ZfVGhlLkVudi83!",
        "it is eHY0bHVlLU9mX1RoZS5FbnYvN3k=!",
    ],
)
def test_the_value_of_a_secret_variable_is_found_in_every_form(text: str) -> None:
    scrubbed = Redactor(SecretRules(), {"ACME_API_KEY": VALUE}).scrub(text)
    assert scrubbed.startswith("it is ")
    assert "[REDACTED:environment]" in scrubbed
    assert len(scrubbed) < len("it is [REDACTED:environment]!") + 4


def test_the_value_of_a_secret_variable_is_found_however_long_it_is() -> None:
    value = "".join(f"{number}x" for number in range(2_000))
    assert (
        Redactor(SecretRules(), {"ACME_API_KEY": value}).scrub(f"it is {value}!") == "it is [REDACTED:environment]!"
    )


@table(
    ("name", "value"),
    [
        ("SSH_KEY_PATH", "/home/me/.ssh/id_ed25519"),
        ("USE_TOKENS", "true"),
        ("MAX_TOKENS", "200000"),
        ("API_KEY", "short"),
        ("DEFAULT_PASSWORD", "placeholder"),
        ("KEYBOARD_LAYOUT", "de-latin1-nodeadkeys"),
        ("HOME", "somewhere-else-9"),
        ("TOKEN_URL", "https://auth.acme.io/token"),
    ],
)
def test_the_value_of_an_ordinary_variable_stays(name: str, value: str) -> None:
    text = f"it is {value} here"
    assert Redactor(SecretRules(), {name: value}).scrub(text) == text


@table(
    ("env", "profile", "key"),
    [
        ({"ANTHROPIC_API_KEY": "sk-ant-dummy"}, {}, "sk-ant-dummy"),
        ({"ANTHROPIC_AUTH_TOKEN": "letmein-please"}, {}, "letmein-please"),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "12345678"}, {}, "12345678"),
        ({"GEMINI_API_KEY": "/keys/mine"}, {}, "/keys/mine"),
        ({"ANTHROPIC_AUTH_TOKEN": "letmein-please"}, {"ANTHROPIC_AUTH_TOKEN": "another-one"}, "another-one"),
        ({}, {"ANTHROPIC_AUTH_TOKEN": "letmein-please"}, "letmein-please"),
        ({}, {"ACME_GATEWAY_KEY": "open-sesame"}, "open-sesame"),
    ],
)
def test_the_key_of_an_engine_is_taken_out_whatever_it_looks_like(
    env: dict[str, str], profile: dict[str, str], key: str
) -> None:
    redactor = Redactor(SecretRules(), env, [profile])
    assert redactor.scrub(f"it is {key} here") == "it is [REDACTED:environment] here"
    assert redactor.scrub(f"it is {key[:-1]} here") == f"it is {key[:-1]} here"


@table(
    ("env", "profile", "text"),
    [
        ({"ANTHROPIC_API_KEY": "dummy"}, {}, "a dummy key"),
        ({"ANTHROPIC_API_KEY": "disabled"}, {}, "it is disabled here"),
        ({"ACME_API_KEY": "open-sesame"}, {}, "say open-sesame"),
        ({}, {"MAX_THINKING_TOKENS": "10000000"}, "10000000 rows"),
        ({}, {"ANTHROPIC_MODEL": "glm-tokens"}, "the model glm-tokens"),
    ],
)
def test_what_an_engine_is_told_else_stays(env: dict[str, str], profile: dict[str, str], text: str) -> None:
    assert Redactor(SecretRules(), env, [profile]).scrub(text) == text


def test_the_password_in_a_url_of_the_environment_is_known_alone() -> None:
    redactor = Redactor(SecretRules(), {"DATABASE_URL": "postgres://app:pl41nwords@db/app"})
    assert redactor.scrub("connecting with pl41nwords") == "connecting with [REDACTED:environment]"


def test_a_pattern_of_the_team_is_a_kind_of_its_own() -> None:
    redactor = Redactor(SecretRules(patterns={"Acme key": r"acme-[0-9]{6}"}), {})
    assert redactor.scrub("k acme-123456") == "k [REDACTED:acme-key]"
    found = found_in(redactor, "a.txt", b"1\nk acme-123456\n")
    assert found == [SecretFound(path="a.txt", line=2, kind="acme-key")]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        SecretRules(patterns={"bad": "("})


def test_allowed_paths_are_not_looked_through() -> None:
    redactor = Redactor(SecretRules(allow_paths=("tests/fixtures/**",)), {})
    token = SHAPED["github-classic"](Dice(6)).encode()
    assert found_in(redactor, "tests/fixtures/deep/a.txt", token) == []
    assert [found.path for found in found_in(redactor, "src/a.txt", token)] == ["src/a.txt"]


@table("kind", sorted(set(SHAPED) - {"unknown-service"}))
def test_a_known_shape_is_a_finding_in_code(kind: str) -> None:
    secret = SHAPED[kind](Dice(9))
    found = found_in(REDACTOR, "src/a.py", f"import os\nKEY = '''{secret}'''\n".encode())
    assert {item.line for item in found} == {2}


@table(
    "kind",
    [
        *(
            "atlassian-service",
            "aws-session-token",
            "azure-devops",
            "azure-openai",
            "bitbucket-app",
            "circleci-project",
        ),
        *("dropbox-short", "flutterwave", "google-refresh", "hubspot", "linear-oauth", "mapbox", "mongodb", "nuget"),
        *("slack-cookie", "snyk", "sonar", "sonar-user", "trello", "wandb-dashes", "yandex"),
    ],
)
def test_every_token_of_a_kind_is_found_in_code(kind: str) -> None:
    dice = Dice(21)
    for _throw in range(30):
        secret = made(SHAPES[kind], dice)
        assert found_in(REDACTOR, "src/app.py", f'X = "{secret}"\n'.encode()), secret
        assert secret not in REDACTOR.scrub(f"it says {secret} and goes on")


def test_a_static_key_of_openvpn_is_gone_whole() -> None:
    lines = "\n".join(Dice(4).hexed(32) for _ in range(16))
    key = f"-----BEGIN OpenVPN Static key V1-----\n{lines}\n-----END OpenVPN Static key V1-----"
    assert REDACTOR.scrub(f"a\n{key}\nb") == "a\n[REDACTED:openvpn-key]\nb"
    assert found_in(REDACTOR, "src/vpn.conf", key.encode())


def test_kinds_of_todays_providers_are_found() -> None:
    """At least 95 of 100, of each form; five throws of the dice each."""
    dice = Dice(120)
    named = {name: (f"{key}=", shape) for name, (key, shape) in NAMED.items()}
    missed: dict[str, list[str]] = {"code": [], "text": []}
    for kind, (before, shape) in {**{name: ("", shape) for name, shape in SHAPES.items()}, **named}.items():
        for _throw in range(5):
            secret = made(shape, dice)
            line = f'{before}"{secret}"' if before else f'X = "{secret}"'
            if not found_in(REDACTOR, "src/app.py", f"{line}\n".encode()):
                missed["code"].append(kind)
            if secret in REDACTOR.scrub(f"it says {before}{secret} and goes on"):
                missed["text"].append(kind)
    thrown = 5 * (len(SHAPES) + len(NAMED))
    assert thrown >= 600
    assert {form: sorted(set(found)) for form, found in missed.items() if len(found) > thrown * 0.05} == {}


@table(
    "line",
    [
        'password = "hunter2"',
        'PASSWORD = "correct horse"',
        'DATABASE_URL = "postgres://postgres:postgres@localhost:5432/test"',
        'DATABASE_URL = "postgres://app:s3cretTestpw@localhost/test"',
        'url = "https://user:password@example.com/path"',
        'API_KEY = "your-api-key-here-1234"',
        'token = "test-token"',
        "secret: !vault |",
        'expect(res.headers["set-cookie"]).toBe("sid=abc; Path=/")',
        'SECRET_KEY = os.environ.get("SECRET_KEY", "dev")',
        'hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"',
        'integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC"',
    ],
)
def test_what_tests_and_documentation_hold_is_no_finding_in_code(line: str) -> None:
    assert found_in(REDACTOR, "src/a.py", line.encode()) == []


def test_a_strong_password_in_code_is_a_finding() -> None:
    _secret, text = SAID["password-json"](Dice(10))
    assert [item.kind for item in found_in(REDACTOR, "config.json", text.encode())] == ["password"]


def test_the_same_json_comes_back_when_there_is_nothing_in_it() -> None:
    value: Any = {"a": ["b", {"c": "d"}], "n": 1}
    assert REDACTOR.scrub_json(value) is value


def test_a_value_is_known_by_its_key_in_json() -> None:
    value: Any = {"client_secret": "aB3dE6gH9jK2", "secret": "see the vault"}
    assert REDACTOR.scrub_json(value) == {"client_secret": "[REDACTED:password]", "secret": "see the vault"}


@pytest.mark.soak
@table(
    "piece",
    [
        *("password=", "://", "://a:", "eyJ", "eyJ.", "sk-", "-----BEGIN PRIVATE KEY-----", "login ", "curl -u "),
        *("cookie:a=", "bearer ", "%41", "\x1b[0m", "\x1b]", "glagent-", "xoxb-1-", "Aa1", "Aa1/", "_", "\\", "\n"),
        *("PuTTY-User-Key-File-2\n", "[REDACTED:", "Aa1" * 21 + "\n", "discord M", "password   ", "AKIA", "T3BlbkFJ"),
    ],
)
def test_a_hostile_line_takes_no_longer_than_its_length(piece: str) -> None:
    """A megabyte in a time in which a quadratic pattern would not get through a tenth of it."""
    text = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    started = time.process_time()
    REDACTOR.scrub(text)
    assert time.process_time() - started < 15


@table("line", ORDINARY)
def test_an_ordinary_line_is_no_finding_in_code(line: str) -> None:
    assert found_in(REDACTOR, "src/a.py", f"{line}\n".encode()) == []


@table("line", SURVIVING)
def test_an_identifier_stays_in_texts(line: str) -> None:
    assert REDACTOR.scrub(line) == line


def test_there_are_enough_ordinary_lines() -> None:
    assert len(ORDINARY) >= 80


def test_a_random_value_behind_a_name_is_a_finding_in_code() -> None:
    dice = Dice(12)
    lines = [
        template.replace("VALUE", dice.letters(length))
        for template in ('password = "VALUE"', "token: VALUE", 'client_secret="VALUE"', 'SECRET_KEY = "a-VALUE"')
        for length in (16, 20, 24, 32, 40, 64)
        for _ in range(20)
    ]
    # Seldom dice make something that can be read.
    missed = [line for line in lines if not found_in(REDACTOR, "a.py", line.encode())]
    assert len(missed) <= len(lines) // 50
    assert sum("[REDACTED:" not in REDACTOR.scrub(line) for line in lines) <= len(lines) // 200


def test_a_header_with_user_and_password_is_a_finding_in_code() -> None:
    dice = Dice(13)
    lines = [SAID["basic"](dice)[1] for _ in range(100)]
    assert sum(bool(found_in(REDACTOR, "a.sh", line.encode())) for line in lines) >= 95


@table(
    "line",
    [
        'password = "Summer2024"',
        "password: CorrectHorse2",
        'secret = "kf8-92jd_Kd8s-Qp20"',
        "db_passwd = hunter2",
        'totp_secret = "JBSWY3DPEHPK3PXP"',
        "password: cGFzc3dvcmQxMjM=",
    ],
)
def test_a_weak_password_is_gone_from_texts(line: str) -> None:
    assert "[REDACTED:password]" in REDACTOR.scrub(line)


@table(
    ("line", "stored"),
    [
        ('password="Tr0ub4dor&3"', 'password="[REDACTED:password]"'),
        ("password = 'Tr0ub;4dor,(3)|x'", "password = '[REDACTED:password]'"),
        ('{"password": "Tr0ub4dor<3>{x}", "user": "ops"}', '{"password": "[REDACTED:password]", "user": "ops"}'),
        ('{"password": "it\'s4dor&3", "n": 1}', '{"password": "[REDACTED:password]", "n": 1}'),
        (r'"{\"password\": \"Tr0ub4dor&3\", \"n\": 1}"', r'"{\"password\": \"[REDACTED:password]\", \"n\": 1}"'),
        (r'{"password": "Tr0u\"b4dor&3", "n": 1}', '{"password": "[REDACTED:password]", "n": 1}'),
        ('password="Tr0ub4dor & 3" next', 'password="[REDACTED:password]" next'),
        ('mysql --password="Tr0ub4dor&3" app', 'mysql --password="[REDACTED:option-password]" app'),
        ('password="Tr0ub4dor&3', 'password="[REDACTED:password]'),
        ("PASSWORD=Tr0ub4dor&3\n", "PASSWORD=[REDACTED:password]\n"),
        ("?password=Tr0ub4dor3&user=ops", "?password=[REDACTED:password]&user=ops"),
        ("PASSWORD=Tr0ub4dor3 && make", "PASSWORD=[REDACTED:password] && make"),
        ('"secret": "see the vault of 2024"', '"secret": "see the vault of 2024"'),
        ("url = '?password=' + value + '&token=' + other", "url = '?password=' + value + '&token=' + other"),
        ('log("token: ", x, "secret: ", y9)', 'log("token: ", x, "secret: ", y9)'),
        ("say('{\"password\":\"'+password+'\"}')", "say('{\"password\":\"'+password+'\"}')"),
    ],
)
def test_a_quoted_value_is_gone_to_its_closing_quote(line: str, stored: str) -> None:
    assert REDACTOR.scrub(line) == stored
    assert REDACTOR.scrub(stored) == stored
