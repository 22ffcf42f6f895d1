"""The nouns that cross layers and are stored in git, a module for each subject."""
