"""What a decision is taken from, and how it is recorded."""
