"""How a step is executed: the port, and the engines behind it."""
