"""One step: planned, executed, looked at, written down."""
