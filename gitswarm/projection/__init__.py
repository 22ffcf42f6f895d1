"""What all runs stored, as tables to ask in SQL: made from git, and never the only place of anything."""
