"""What authors write: flows, stations, stub scripts. Models, and a loader that knows lines."""
