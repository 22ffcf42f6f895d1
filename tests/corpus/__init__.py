"""Runs as earlier versions stored them: `make.py` made each, `tests/test_stored_runs.py` reads them."""
