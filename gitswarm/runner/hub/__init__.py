"""Runs on a hub: pushed under a lease, taken over, brought here."""
