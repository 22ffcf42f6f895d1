"""What agents may do, and what may leave: pure decisions first, enforcement second."""
