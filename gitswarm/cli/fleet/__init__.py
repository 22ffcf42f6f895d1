"""`git swarm fleet`: many runs, on this machine or on many."""
