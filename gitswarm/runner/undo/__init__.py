"""Taking back, setting aside, branching off, cleaning up."""
