"""Secrets that are known by their shape, wherever they stand. The kinds are listed in docs/secrets.md."""

from __future__ import annotations

import re

from gitswarm.safety.redact.plausible import is_placeholder
from gitswarm.safety.redact.rule import Rule, begins, shaped

_NO_WORD_BEFORE = r"(?<![A-Za-z0-9])"
_NO_WORD_BEHIND = r"(?![A-Za-z0-9])"
_BODY = r"[A-Za-z0-9_-]"

_KEY_NAME = r"(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_BETWEEN = r"""(?:\\{1,2}[nr]|[\s"',])*"""
_KEY_LINES = rf"(?:{_BETWEEN}[A-Z][A-Za-z-]{{2,30}}: [^\n\\]{{1,200}}){{0,6}}(?:{_BETWEEN}[A-Za-z0-9+/=]{{16,}})+"
# Without its end, only what looks like lines of a key belongs to it: texts mention how a key begins.
_PRIVATE_KEY = f"-----BEGIN {_KEY_NAME}(?:(?:[^-]|-(?!----)){{1,20000}}-----END {_KEY_NAME}|{_KEY_LINES})"
# Of a key with colour codes at its begin only that was read; the rest belongs to it.
_WRAP = r"(?:\\{1,2}[nr]|[\r\n\t])*"
_REST_OF_KEY = (
    rf"\[REDACTED:private-key\][A-Za-z0-9+/=]{{0,63}}(?:{_WRAP}[A-Za-z0-9+/=]{{16,}})+"
    rf"(?:(?:{_WRAP}[A-Za-z0-9+/=]{{1,15}})?{_WRAP}-----END {_KEY_NAME})?"
)

_JWT = begins("eyJ") + rf"{_BODY}{{8,}}\.{_BODY}{{8,}}={{0,2}}(?:\.[A-Za-z0-9_=-]*)?"


def _token(kind: str, prefix: str, body: str) -> Rule:
    """A literal prefix, and a body behind it."""
    return shaped(kind, prefix, begins(re.escape(prefix)) + body)


TOKENS: tuple[Rule, ...] = (
    shaped("private-key", "PRIVATE", _PRIVATE_KEY, back=80),
    shaped("private-key", "[REDACTED:private-key]", _REST_OF_KEY),
    shaped("putty-key", "PuTTY-User-Key-File-", r"PuTTY-User-Key-File-\d(?:[^\n]*\n){1,60}?Private-MAC: ?[0-9a-f]+"),
    _token("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    Rule("jwt", ("eyJ",), lambda: (re.compile(_JWT),), accept=lambda match: not is_placeholder(match[0])),
    _token("anthropic-key", "sk-ant-", rf"{_BODY}{{20,}}"),
    shaped(
        "openai-key",
        "sk-",
        begins("sk-")
        + rf"(?:(?:proj|svcacct|admin)-{_BODY}{{20,}}|[A-Za-z0-9]{{40,}}|{_BODY}*T3BlbkFJ[A-Za-z0-9]{{20}})",
    ),
    _token("openrouter-key", "sk-or-v1-", r"[0-9a-f]{40,}"),
    _token("google-api-key", "AIza", rf"{_BODY}{{35}}"),
    _token("google-oauth-token", "ya29.", rf"{_BODY}{{20,}}"),
    _token("google-client-secret", "GOCSPX-", rf"{_BODY}{{24,}}"),
    _token("github-token", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    _token("slack-token", "xapp-", rf"\d-{_BODY}{{20,}}"),
    _token("slack-token", "xoxe", rf"(?:\.xox[bp])?-\d-{_BODY}{{20,}}"),
    shaped(
        "discord-webhook",
        "/api/webhooks/",
        rf"discord(?:app)?\.com/api/webhooks/(?P<value>\d{{6,}}/{_BODY}{{40,}})",
        back=20,
    ),
    shaped(
        "discord-token",
        "discord bot",
        r"(?-i:(?<![\w.-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}(?![\w.-]))",
        folds=True,
    ),
    shaped("teams-webhook", ".webhook.office.com/", r"(?P<value>webhookb2/[^\s\"'<>\\]{40,})", back=0),
    shaped("stripe-key", "_live_ _test_", rf"{_NO_WORD_BEFORE}[rs]k_(?:live|test)_[0-9A-Za-z]{{16,}}", back=2),
    _token("stripe-webhook-secret", "whsec_", r"[A-Za-z0-9+/]{24,}={0,2}"),
    _token("mailgun-key", "key-", rf"[0-9a-f]{{32}}{_NO_WORD_BEHIND}"),
    shaped("mailchimp-key", "-us", rf"{_NO_WORD_BEFORE}[0-9a-f]{{32}}-us\d{{1,2}}{_NO_WORD_BEHIND}", back=32),
    shaped("twilio-key", "SK", begins("SK") + rf"[0-9a-f]{{32}}{_NO_WORD_BEHIND}"),
    shaped("telegram-token", ":AA", rf"(?<!\d)\d{{8,10}}:AA{_BODY}{{33}}{_NO_WORD_BEHIND}", back=10),
    _token("npm-token", "npm_", rf"[A-Za-z0-9]{{36}}{_NO_WORD_BEHIND}"),
    shaped("azure-client-secret", "8Q~", rf"{_NO_WORD_BEFORE}[\w~.-]{{3}}8Q~[\w~.-]{{31,34}}", back=3),
    shaped("azure-sas", "sig=", r"[?&](?:amp;)?sig=(?P<value>[A-Za-z0-9+/]{40,}={0,2})", back=5),
    shaped("azure-key", "SharedAccessKey=", r"SharedAccessKey=(?P<value>[A-Za-z0-9+/]{40,}={0,2})"),
    shaped("digitalocean-token", "_v1_", rf"{_NO_WORD_BEFORE}do[opr]_v1_[0-9a-f]{{64}}", back=3),
    shaped("shopify-token", "shp", begins("shp") + r"(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _token("square-token", "sq0atp-", rf"{_BODY}{{22,}}"),
    _token("dropbox-token", "sl.", rf"{_BODY}{{60,}}"),
    _token("heroku-key", "HRKU-", rf"{_BODY}{{30,}}"),
    *(_token("vault-token", prefix, rf"{_BODY}{{24,}}") for prefix in ("hvs.", "hvb.", "hvr.")),
    shaped("terraform-token", ".atlasv1.", rf"{_NO_WORD_BEFORE}[A-Za-z0-9]{{14}}\.atlasv1\.{_BODY}{{40,}}", back=14),
    _token("databricks-token", "dapi", rf"[0-9a-f]{{32}}(?:-\d)?{_NO_WORD_BEHIND}"),
    _token("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[0-9a-f]{8}"),
    _token("grafana-token", "glc_", r"eyJ[A-Za-z0-9+/]{30,}={0,2}"),
    _token("newrelic-key", "NRAK-", r"[A-Z0-9]{27}"),
    _token("sentry-token", "sntryu_", r"[0-9a-f]{64}"),
    _token("sentry-token", "sntrys_", r"[A-Za-z0-9+/=_-]{40,}"),
    _token("docker-token", "dckr_pat_", rf"{_BODY}{{27}}"),
    _token("linear-key", "lin_api_", r"[A-Za-z0-9]{40}"),
    _token("notion-token", "ntn_", r"[A-Za-z0-9]{40,}"),
    _token("figma-token", "figd_", rf"{_BODY}{{40}}"),
    shaped("airtable-token", "pat", begins("pat") + r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _token("atlassian-token", "ATATT3", r"[A-Za-z0-9_=-]{60,}"),
    _token("huggingface-token", "hf_", rf"[A-Za-z0-9]{{34}}{_NO_WORD_BEHIND}"),
    _token("replicate-token", "r8_", rf"[A-Za-z0-9]{{37}}{_NO_WORD_BEHIND}"),
    _token("groq-key", "gsk_", r"[A-Za-z0-9]{52}"),
    _token("xai-key", "xai-", r"[A-Za-z0-9]{80}"),
    _token("perplexity-key", "pplx-", r"[A-Za-z0-9]{48}"),
    _token("rubygems-key", "rubygems_", r"[0-9a-f]{48}"),
    _token("crates-token", "cio", rf"[A-Za-z0-9]{{32}}{_NO_WORD_BEHIND}"),
    _token("postman-key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    _token("planetscale-token", "pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{32,}"),
    _token("supabase-token", "sbp_", r"[0-9a-f]{40}"),
    _token("netlify-token", "nfp_", r"[A-Za-z0-9]{36}"),
    _token("pulumi-token", "pul-", r"[0-9a-f]{40}"),
    _token("doppler-token", "dp.pt.", r"[A-Za-z0-9]{40,}"),
    _token("tailscale-key", "tskey-", r"[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}"),
    _token("circleci-token", "CCIPAT_", rf"{_BODY}{{20,}}"),
    _token("onepassword-token", "ops_", r"eyJ[A-Za-z0-9+/_-]{80,}={0,2}"),
    shaped("artifactory-key", "AKC", begins("AKC") + r"[A-Za-z0-9]{60,}"),
)
