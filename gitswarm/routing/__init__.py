"""Which step is next, and why: one driver, pure, whose every decision can be explained."""
