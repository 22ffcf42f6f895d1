"""`git swarm web`: runs in a browser. It owns no state: what it shows is in git or in an open journal, and what it
does is what a command does."""
