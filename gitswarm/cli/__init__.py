"""The command line: the only place that knows typer and rich, and the only one that reads the environment."""
