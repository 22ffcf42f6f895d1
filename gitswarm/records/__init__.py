"""The nouns that cross layers and are stored in git: one class, one module each."""
