"""What happened, in git: journals, commits, notes; and the state of a run by replay of them."""
