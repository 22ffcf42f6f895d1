"""Runs through the product on real git, each with the exact sequence of steps, decisions and sources."""
