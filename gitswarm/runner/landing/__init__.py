"""Approval of a run's code, and its landing on the target branch."""
