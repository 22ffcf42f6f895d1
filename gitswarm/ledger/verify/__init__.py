"""Whether what a run stores is what git-swarm wrote: checks over commits that were read, and the walk over them."""
