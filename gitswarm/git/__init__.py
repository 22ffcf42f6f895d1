"""The only place that knows pygit2 or starts `git`."""
