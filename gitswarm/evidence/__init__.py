"""What can be proven about a step."""
