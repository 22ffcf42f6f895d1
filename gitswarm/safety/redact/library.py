"""Patterns of detect-secrets. Its detectors are imported when one of their keywords is seen: they cost 150 ms.

Only its `denylist` patterns are used, with the whole match: `secret_value` of some detectors is only the prefix of
the secret, and `scan_line` takes every hash for one. Its other detectors match too little (JWT without its
signature), too much (any IP address), or in quadratic time (OpenAI, Cloudant, npm, URLs): `tokens` and `assignments`
stand in for them.
"""

from __future__ import annotations

import re
from importlib import import_module

from gitswarm.safety.redact.rule import Rule


def _rule(kind: str, detector: str, keywords: str, *, back: int = 0, folds: bool = False) -> Rule:
    """
    :param detector: `module.Class` below `detect_secrets.plugins`.
    """

    def patterns() -> tuple[re.Pattern[str], ...]:
        module, _dot, name = detector.partition(".")
        found = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        return tuple(found.denylist)

    return Rule(kind, tuple(keywords.split()), patterns, back=back, folds=folds)


LIBRARY: tuple[Rule, ...] = (
    _rule("aws-key", "aws.AWSKeyDetector", "AKIA ASIA ABIA ACCA A3T"),
    _rule("azure-key", "azure_storage_key.AzureStorageKeyDetector", "AccountKey="),
    _rule("github-token", "github_token.GitHubTokenDetector", "ghp_ gho_ ghu_ ghs_ ghr_"),
    _rule(
        "gitlab-token",
        "gitlab_token.GitLabTokenDetector",
        "glpat- gldt- glft- glsoat- glrt- GR1348941 glcbt- glimt- glptt- glagent- gloas-",
    ),
    _rule("pypi-token", "pypi_token.PypiTokenDetector", "pypi-AgE"),
    _rule("sendgrid-key", "sendgrid.SendGridDetector", "SG."),
    _rule(
        "slack-token",
        "slack.SlackDetector",
        "xoxa- xoxb- xoxp- xoxo- xoxs- xoxr- hooks.slack.com",
        back=8,
        folds=True,
    ),
    _rule("square-token", "square_oauth.SquareOAuthDetector", "sq0csp-"),
    _rule("stripe-key", "stripe.StripeDetector", "k_live_", back=1),
)
