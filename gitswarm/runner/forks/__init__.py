"""Steps that are executed at the same time."""
