"""git-swarm: agents carry out a software flow on a shadow branch, one commit per step."""

__version__ = "0.1.0.dev0"
