"""Made-up secrets of many kinds, and what looks like one and is none. The same for the same seed."""

from __future__ import annotations

import base64
import random
import string
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

ALNUM = string.ascii_letters + string.digits
LOWER_HEX = "0123456789abcdef"
WORD = f"{ALNUM}_-"


@dataclass(frozen=True)
class Planted:
    """`text` is what stands in a file or an output; no part of it may show `secret` afterwards."""

    kind: str
    secret: str
    text: str


class Dice:
    """Random letters of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def letters(self, length: int, alphabet: str = ALNUM) -> str:
        """At least one letter of each class that the alphabet has, so that it is no word by accident."""
        classes = [
            kept
            for kept in (string.ascii_lowercase, string.ascii_uppercase, string.digits)
            if set(kept) <= set(alphabet)
        ]
        first = [self.random.choice(kept) for kept in classes][:length]
        rest = [self.random.choice(alphabet) for _ in range(length - len(first))]
        found = [*first, *rest]
        self.random.shuffle(found)
        if found[0] in "-_":
            found[0] = "a"
        if found[-1] in "-_":
            found[-1] = "Z"
        return "".join(found)

    def hexed(self, length: int) -> str:
        return "".join(self.random.choice(LOWER_HEX) for _ in range(length))

    def digits(self, length: int) -> str:
        return str(self.random.randint(1, 9)) + "".join(self.random.choice(string.digits) for _ in range(length - 1))


def _pem(dice: Dice, name: str) -> str:
    body = base64.b64encode(dice.random.randbytes(600)).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"])


def _jwt(dice: Dice) -> str:
    parts = ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{dice.digits(10)}","iat":1516239022}}')
    coded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, dice.letters(43, WORD)])


def _prefixed(prefix: str, length: int, alphabet: str = ALNUM) -> Callable[[Dice], str]:
    return lambda dice: prefix + dice.letters(length, alphabet)


SHAPED: Mapping[str, Callable[[Dice], str]] = {
    "aws-key": lambda dice: "AKIA" + dice.letters(16, string.ascii_uppercase + string.digits),
    "anthropic": _prefixed("sk-ant-api03-", 95, WORD),
    "openai-project": _prefixed("sk-proj-", 48, WORD),
    "openai-legacy": lambda dice: f"sk-{dice.letters(20)}T3BlbkFJ{dice.letters(20)}",
    "openrouter": lambda dice: f"sk-or-v1-{dice.hexed(64)}",
    "google-api": _prefixed("AIza", 35, WORD),
    "google-oauth": _prefixed("ya29.", 60, WORD),
    "google-client": _prefixed("GOCSPX-", 28, WORD),
    "github-classic": _prefixed("ghp_", 36),
    "github-server": _prefixed("ghs_", 36),
    "github-fine": lambda dice: f"github_pat_{dice.letters(22)}_{dice.letters(59)}",
    "gitlab": _prefixed("glpat-", 20),
    "slack-bot": lambda dice: (
        f"xoxb-{dice.digits(12)}-{dice.digits(12)}-{dice.letters(24, string.ascii_lowercase + string.digits)}"
    ),
    "slack-app": lambda dice: f"xapp-1-A{dice.digits(10)}-{dice.digits(13)}-{dice.hexed(64)}",
    "slack-webhook": lambda dice: (
        f"https://hooks.slack.com/services/T{dice.digits(8)}/B{dice.digits(8)}/{dice.letters(24)}"
    ),
    "stripe-live": _prefixed("sk_live_", 24),
    "stripe-restricted": _prefixed("rk_live_", 24),
    "stripe-webhook": _prefixed("whsec_", 32),
    "sendgrid": lambda dice: f"SG.{dice.letters(22, WORD)}.{dice.letters(43, WORD)}",
    "mailgun": lambda dice: f"key-{dice.hexed(32)}",
    "mailchimp": lambda dice: f"{dice.hexed(32)}-us12",
    "twilio": lambda dice: f"SK{dice.hexed(32)}",
    "telegram": lambda dice: f"{dice.digits(10)}:AA{dice.letters(33, WORD)}",
    "npm": _prefixed("npm_", 36),
    "pypi": _prefixed("pypi-AgEIcHlwaS5vcmc", 90, WORD),
    "digitalocean": lambda dice: f"dop_v1_{dice.hexed(64)}",
    "shopify": lambda dice: f"shpat_{dice.hexed(32)}",
    "square": _prefixed("sq0csp-", 43, WORD),
    "dropbox": _prefixed("sl.", 130, WORD),
    "heroku": _prefixed("HRKU-", 36),
    "vault": _prefixed("hvs.", 90, WORD),
    "terraform": lambda dice: f"{dice.letters(14)}.atlasv1.{dice.letters(67, WORD)}",
    "databricks": lambda dice: f"dapi{dice.hexed(32)}",
    "grafana": lambda dice: f"glsa_{dice.letters(32)}_{dice.hexed(8)}",
    "newrelic": lambda dice: "NRAK-" + dice.letters(27, string.ascii_uppercase + string.digits),
    "sentry": lambda dice: f"sntryu_{dice.hexed(64)}",
    "docker": _prefixed("dckr_pat_", 27, WORD),
    "linear": _prefixed("lin_api_", 40),
    "notion": _prefixed("ntn_", 46),
    "figma": _prefixed("figd_", 40, WORD),
    "airtable": lambda dice: f"pat{dice.letters(14)}.{dice.hexed(64)}",
    "atlassian": _prefixed("ATATT3xFfGF0", 180, WORD),
    "huggingface": _prefixed("hf_", 34),
    "replicate": _prefixed("r8_", 37),
    "groq": _prefixed("gsk_", 52),
    "xai": _prefixed("xai-", 80),
    "perplexity": _prefixed("pplx-", 48),
    "rubygems": lambda dice: f"rubygems_{dice.hexed(48)}",
    "crates": _prefixed("cio", 32),
    "postman": lambda dice: f"PMAK-{dice.hexed(24)}-{dice.hexed(34)}",
    "planetscale": _prefixed("pscale_tkn_", 43),
    "supabase": lambda dice: f"sbp_{dice.hexed(40)}",
    "netlify": _prefixed("nfp_", 36),
    "pulumi": lambda dice: f"pul-{dice.hexed(40)}",
    "doppler": _prefixed("dp.pt.", 43),
    "tailscale": lambda dice: f"tskey-auth-{dice.letters(12)}-{dice.letters(32)}",
    "circleci": lambda dice: f"CCIPAT_{dice.letters(22)}_{dice.hexed(40)}",
    "azure-client": lambda dice: f"{dice.letters(3)}8Q~{dice.letters(34)}",
    "age": lambda dice: "AGE-SECRET-KEY-1" + dice.letters(58, string.ascii_uppercase + string.digits),
    "jwt": _jwt,
    "rsa-key": lambda dice: _pem(dice, "RSA PRIVATE KEY"),
    "openssh-key": lambda dice: _pem(dice, "OPENSSH PRIVATE KEY"),
    "unknown-service": lambda dice: dice.letters(44),
}
"""Secrets that are known wherever they stand."""


def _said(template: str, make: Callable[[Dice], str]) -> Callable[[Dice], tuple[str, str]]:
    def planted(dice: Dice) -> tuple[str, str]:
        secret = make(dice)
        return secret, template.replace("SECRET", secret)

    return planted


def _basic(dice: Dice) -> tuple[str, str]:
    coded = base64.b64encode(f"deploy:{dice.letters(16)}".encode()).decode()
    return coded, f"Authorization: Basic {coded}"


SAID: Mapping[str, Callable[[Dice], tuple[str, str]]] = {
    "aws-secret": _said("aws_secret_access_key = SECRET", lambda dice: dice.letters(40, f"{ALNUM}/+")),
    "aws-session": _said("AWS_SESSION_TOKEN=SECRET", lambda dice: dice.letters(200, f"{ALNUM}/+")),
    "azure-storage": _said(
        "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=SECRET;EndpointSuffix=core.windows.net",
        lambda dice: dice.letters(86) + "==",
    ),
    "password": _said("password=SECRET", lambda dice: dice.letters(12)),
    "password-yaml": _said("  db_password: 'SECRET'", lambda dice: dice.letters(14)),
    "password-json": _said('{"user": "ops", "password": "SECRET"}', lambda dice: dice.letters(16)),
    "password-escaped": _said(
        '"{\\"user\\": \\"ops\\", \\"password\\": \\"SECRET\\"}"', lambda dice: dice.letters(16)
    ),
    "env-file": _said("SIGNING_KEY=SECRET", lambda dice: dice.letters(24)),
    "api-key": _said('"x-api-key": "SECRET"', lambda dice: dice.letters(24)),
    "client-secret": _said("client_secret: SECRET", lambda dice: dice.letters(20)),
    "postgres-url": _said("postgres://app:SECRET@db.internal:5432/app", lambda dice: dice.letters(14)),
    "redis-url": _said("redis://:SECRET@cache.internal:6379/0", lambda dice: dice.letters(14)),
    "https-url": _said("https://oauth2:SECRET@git.acme.io/a/b.git", lambda dice: dice.letters(22)),
    "bearer": _said("Authorization: Bearer SECRET", lambda dice: dice.letters(40)),
    "basic": _basic,
    "cookie": _said("Set-Cookie: sid=SECRET; Path=/; HttpOnly", lambda dice: dice.letters(32)),
    "netrc": _said("machine api.acme.io login ops password SECRET", lambda dice: dice.letters(12)),
    "npmrc": _said("//registry.acme.io/:_authToken=SECRET", lambda dice: dice.letters(30)),
    "pip-conf": _said("index-url = https://ops:SECRET@pypi.acme.io/simple", lambda dice: dice.letters(18)),
    "docker-auth": _said('{"auths": {"r.acme.io": {"auth": "SECRET"}}}', lambda dice: dice.letters(32)),
    "curl-user": _said("curl -s -u ops:SECRET https://api.acme.io/v1", lambda dice: dice.letters(14)),
    "option": _said("mysqldump --password=SECRET app", lambda dice: dice.letters(14)),
    "discord-webhook": _said(
        "https://discord.com/api/webhooks/1234567890123/SECRET", lambda dice: dice.letters(68, WORD)
    ),
}
"""Secrets that are known by what stands before them."""


def _plain(text: str) -> str:
    return text


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _url(text: str) -> str:
    return quote(text, safe="").replace("e", "%65")


def _coloured(text: str) -> str:
    """Colour codes in the middle of it, as of a terminal that highlights."""
    third = max(1, len(text) // 3)
    return f"{text[:third]}\x1b[0m{text[third : 2 * third]}\x1b[1;31m{text[2 * third :]}"


FORMS: Mapping[str, Callable[[str], str]] = {
    "plain": _plain,
    "base64": _base64,
    "url": _url,
    "ansi": _coloured,
}


def planted(count: int, seed: int = 6) -> list[Planted]:
    """At least `count` secrets, every kind in every form in turn."""
    dice = Dice(seed)
    found: list[Planted] = []
    while len(found) < count:
        for kind, make in SHAPED.items():
            for name, form in FORMS.items():
                if not (kind == "unknown-service" and name != "plain"):
                    secret = form(make(dice))
                    found.append(Planted(f"{kind}/{name}", secret, f"before {secret} behind"))
        for kind, say in SAID.items():
            for name, form in FORMS.items():
                secret, text = say(dice)
                text = form(text)
                found.append(
                    Planted(f"{kind}/{name}", secret if name == "plain" else _hidden(name, secret, text), text)
                )
    return found


def _hidden(form: str, secret: str, text: str) -> str:
    """What of a coded text must be gone."""
    if form == "base64":
        return text
    return text[len(text) // 2 :] if form == "url" and secret not in text else secret[-6:]


def harmless(count: int, seed: int = 7) -> list[str]:
    """Lines that have to stay as they are."""
    lines: list[str] = []
    makers = list(_HARMLESS)
    dice = Dice(seed)
    while len(lines) < count:
        lines += [*(make(dice) for make in makers), *_FIXED]
    return lines[:count]


def _sri(dice: Dice, bits: int) -> str:
    return base64.b64encode(dice.random.randbytes(bits // 8)).decode()


_HARMLESS: tuple[Callable[[Dice], str], ...] = (
    lambda dice: dice.hexed(40),
    lambda dice: f"commit {dice.hexed(40)}",
    lambda dice: f"tree {dice.hexed(40)} parent {dice.hexed(40)}",
    lambda dice: f"sha256:{dice.hexed(64)}",
    lambda dice: f'"prompt_hash": "{dice.hexed(64)}"',
    lambda dice: dice.hexed(64),
    lambda dice: dice.hexed(7),
    lambda dice: str(uuid.UUID(int=dice.random.getrandbits(128))),
    lambda dice: f"run-20261120-101112-{dice.hexed(6)}",
    lambda dice: f"Swarm-Prev-Notes: {dice.hexed(40)} {dice.hexed(40)}",
    lambda dice: f"Swarm-Tokens: {dice.digits(6)}",
    lambda dice: (
        f'"tokens": {{"prompt": {dice.digits(5)}, "completion": {dice.digits(4)}, "total": {dice.digits(6)}}}'
    ),
    lambda dice: f'      "integrity": "sha512-{_sri(dice, 512)}",',
    lambda dice: f'      "integrity": "sha1-{_sri(dice, 160)}",',
    lambda dice: f'checksum = "{dice.hexed(64)}"',
    lambda dice: f'    {{file = "pkg-1.2-py3-none-any.whl", hash = "sha256:{dice.hexed(64)}"}},',
    lambda dice: f"github.com/a/b v1.{dice.digits(1)}.0 h1:{_sri(dice, 256)}",
    lambda dice: f"github.com/a/b v1.{dice.digits(1)}.0/go.mod h1:{_sri(dice, 256)}",
    lambda dice: f"    --hash=sha256:{dice.hexed(64)} \\",
    lambda dice: f'  resolved "https://registry.yarnpkg.com/a/-/a-1.{dice.digits(1)}.0.tgz#{dice.hexed(40)}"',
    lambda dice: f"256 SHA256:{_sri(dice, 256).rstrip('=')} ops@host (ED25519)",
    lambda dice: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{dice.letters(43)} ops@host",
    lambda dice: f"2026-11-20T10:11:12.{dice.digits(3)}Z",
    lambda dice: f".swarm/runs/run-20261120-101112-{dice.hexed(6)}/build/receipts/author_tests-test-author.json",
    lambda dice: f"gitswarm/runner/undo/recovery.py:{dice.digits(2)}: in restore_worktree",
    lambda dice: f"index {dice.hexed(7)}..{dice.hexed(7)} 100644",
    lambda dice: f"@@ -{dice.digits(2)},7 +{dice.digits(2)},9 @@ def _private_key_of(session: Session) -> str:",
    lambda dice: f"refs/swarm/run-20261120-101112-{dice.hexed(6)}/fork/{dice.hexed(12)}/write",
    lambda dice: f"var a{dice.digits(1)}=require('./someVeryLongCamelCaseModuleNameThatNobodyNeeds2')",
    lambda dice: f"sha256-{_sri(dice, 256)}",
    lambda dice: f"data:image/png;base64,iVBORw0KGgo{_sri(dice, 2400)}",
    lambda dice: f"toolu_01{dice.letters(22)} msg_01{dice.letters(22)}",
    lambda dice: (
        f"https://example.com/docs/some-long-page-title-with-many-words-{dice.digits(4)}?page={dice.digits(2)}"
    ),
    lambda dice: f"/home/user/projects/My-Project_2/node_modules/@scope/package-name/dist/index.{dice.hexed(8)}.js",
    lambda dice: f"test_that_a_very_long_name_of_a_test_function_is_no_secret_{dice.digits(2)} PASSED",
    lambda dice: f"pid {dice.digits(5)} took 0.{dice.digits(6)} s, max_tokens={dice.digits(4)}, key=value, keys: 12",
)


_FIXED = (
    "password = get_password()",
    "password: str | None = None",
    "the password is asked for at the prompt; token: see the documentation",
    "export API_KEY=$API_KEY PASSWORD=${PASSWORD:-} TOKEN=$(cat token)",
    'token = os.environ["API_TOKEN"]; secret = config.secret_key',
    "const password = req.body.password, token = await getToken(user);",
    "function e(t,n,r){return t&&n.useLayoutEffectWhenMounted&&r.__esModule2Default(t)}",
    'raise ValueError("password must have 8 letters")',
    "secretName: app-credentials\n  secretKeyRef: {name: db, key: password}",
)
