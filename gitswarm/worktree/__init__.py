"""Where agents work: the run's own linked worktree, and what is taken from it."""
