"""Measurements against plain git, in the same run. Start them with `make bench`."""
