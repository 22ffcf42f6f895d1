"""What tests and documentation may hold, and what is a finding there too."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path

from gitswarm.records.safety import SecretRules
from gitswarm.safety.redact.redactor import Redactor, is_example_path
from tests.safety.redact.corpus import SAID, SHAPED, Dice
from tests.tables import table

REDACTOR = Redactor(SecretRules(), {})
KEY = SHAPED["rsa-key"](Dice(70))


def kinds(path: str, text: str, redactor: Redactor = REDACTOR) -> list[str]:
    return [suspect.found.kind for suspect in redactor.find_in_code(path, text.encode())]


def token(about: dict[str, object], key: bytes, alg: str = "HS256") -> str:
    """A JWT signed as the standard says."""
    parts = (json.dumps({"alg": alg, "typ": "JWT"}), json.dumps(about))
    signed = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    made = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


@table(
    "path",
    [
        *(
            "tests/certs/a.key",
            "src/pkg/tests/a.py",
            "test_a.py",
            "a_test.go",
            "web/a.spec.ts",
            "docs/a.md",
            "README",
        ),
        *("test/fixtures/a.json", "spec/a.rb", "examples/a.py", "pkg/testdata/a", "__tests__/a.js", "docs_src/a.py"),
        *("conftest.py", "app/tests.py", "t/a.py", "integration_tests/a.py", "CHANGELOG.md"),
    ],
)
def test_a_key_and_a_made_up_password_are_examples_there(path: str) -> None:
    assert kinds(path, f"{KEY}\n{SAID['password-json'](Dice(71))[1]}\n") == []
    assert kinds(path, f"x = '{SHAPED['github-classic'](Dice(72))}'\n") == ["github-token"]


@table("path", ["src/a.key", "contest/a.py", "latest/a.py", "attestation.py", "deploy/prod.key", "respect/a.rb"])
def test_elsewhere_they_are_none(path: str) -> None:
    assert not is_example_path(path)
    assert kinds(path, f"{KEY}\n") == ["private-key"]


@table("write", ["{key}\n", "KEY = {key!r}\n"])
def test_a_key_of_the_user_is_none_anywhere(tmp_path: Path, write: str) -> None:
    (tmp_path / ".ssh").mkdir(exist_ok=True)
    (tmp_path / ".ssh" / "id_rsa").write_text(f"{KEY}\n", encoding="utf-8")
    own = Redactor(SecretRules(), {"HOME": str(tmp_path)})
    other = SHAPED["rsa-key"](Dice(73))
    assert kinds("tests/a.py", write.format(key=KEY), own) == ["private-key"]
    assert kinds("tests/a.py", write.format(key=other), own) == []


def test_what_the_environment_holds_is_found_in_tests() -> None:
    redactor = Redactor(SecretRules(), {"ACME_API_KEY": "pl41n-but-secret"})
    assert kinds("tests/a.py", "password = 'pl41n-but-secret'", redactor) == ["environment"]


@table(
    ("about", "key", "alg", "count"),
    [
        ({"sub": "8812", "role": "admin"}, b"R3ally-Random.k3y", "HS256", 1),
        ({"sub": "8812", "exp": 4102444800}, b"R3ally-Random.k3y", "HS256", 1),
        ({"sub": "8812", "role": "admin"}, b"secret", "HS256", 0),
        ({"sub": "8812", "role": "admin"}, b"R3ally-Random.k3y", "none", 0),
        ({"sub": "8812", "exp": 1300819380}, b"R3ally-Random.k3y", "HS256", 0),
        ({"some": "payload"}, b"R3ally-Random.k3y", "HS256", 0),
    ],
)
def test_a_token_that_opens_nothing_is_no_finding(about: dict[str, object], key: bytes, alg: str, count: int) -> None:
    """Everybody can sign with `secret`, or not at all; an expired one, and one about nobody, are as good as none."""
    assert kinds("src/a.py", f"x = '{token(about, key, alg)}'").count("jwt") == count


@table(
    "line",
    [
        "token = _XRegExp$exec2[0];",
        'f"http://{ENCODED_USER}:{ENCODED_PASSWORD}@request.com/url"',
        '"http://userid:password@example.com:8080/"',
        'url = "http://nkim:1234@python.org"',
        'url = "http://:password@example.org"',
        'url = "https://me:s3cret-Value9@git.test/a"',
        'url = "https://u:${TOKEN_V2_x9}@acme.io"',
        '"GET http://a%12:b!&*$@hypnotoad.org:1234/toto HTTP/1.1"',
        'password = "$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW"',
        'password="pbkdf2_sha256$870000$Jk3yL9sQ2xWv$0aM2lU6f1dGh3vKc9Qw8eRt7yUi5oPa4sDf6gHj8kLz="',
        'password_hash = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQxMjM$RdescudvJCsgt3ub+b6dWRWJTmaaQFt3bK8w2g9X"',
        'secret = "$6$rounds=5000$usesomesalt$D4IrlXatmP7rx3P3InaxBeoomnAihCKRVQAr/36eYiCVgTDXXL9Ia"',
        "tss_update_all_rows_of_a_table_v2 = prf_run_everything_in_one_go_2(phc_rows)",
    ],
)
def test_what_real_projects_hold_is_no_finding(line: str) -> None:
    assert kinds("src/a.py", line) == []


@table("line", ["postgres://app:pl41nw0rds-x@db.acme.io/app", "https://ci:Ab3dE6gH1j@git.acme.io/a.git"])
def test_a_password_that_somebody_chose_is_one_in_a_url(line: str) -> None:
    assert kinds("src/a.py", f"URL = '{line}'") == ["url-password"]
