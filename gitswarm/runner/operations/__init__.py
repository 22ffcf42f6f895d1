"""What git-swarm itself does as a step of a flow (`engine: kernel`); docs/flows.md says what each operation is."""
