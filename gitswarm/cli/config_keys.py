"""The keys of configuration, for TAB: their models take longer to import than an answer may take.

Those of engines that are not built in are not here."""

from __future__ import annotations

from gitswarm.engines.names import BUILT_IN

KEYS = (
    "engines.default",
    "engines.flows",
    "engines.steps",
    *(f"engines.{name}.{key}" for name, each in BUILT_IN.items() for key in each.keys),
    "commands.test",
    "commands.lint",
    "commands.smoke",
    "commands.tests",
    "worktree.dir",
    "worktree.copy",
    "worktree.setup",
    "worktree.setup_timeout",
    "routing.mode",
    "routing.navigator_timeout",
    "policy.deny",
    "policy.protected_paths",
    "policy.env",
    "policy.sandbox",
    "policy.sandbox_binds",
    "policy.network",
    "policy.allow_hosts",
    "policy.human",
    "secrets.patterns",
    "secrets.allow_paths",
    "hub",
    "deploy.target",
    "deploy.strategy",
    "deploy.push",
    "deploy.require_signature",
    "deploy.ci_timeout",
    "review.forge",
    "review.remote",
    "proof.max_time",
    "budget.max_cost_usd",
    "budget.max_tokens",
    "budget.max_time",
    "retention.days",
    "context.profile",
    "context.instructions",
    "context.wisdom",
    "durability",
)
