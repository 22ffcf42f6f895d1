"""Approval of a run's code, and its way to the target branch."""
