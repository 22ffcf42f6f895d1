"""Sessions of Gemini CLI, held to git-swarm's policy and handoff from outside."""
