"""The only place where worktree, engines, evidence, routing and ledger meet."""
