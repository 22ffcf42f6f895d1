"""Which tool calls of an agent are carried out: decisions only, from values only."""
