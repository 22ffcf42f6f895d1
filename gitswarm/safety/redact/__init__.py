"""Finds secrets in texts and in code. docs/secrets.md lists the kinds."""
