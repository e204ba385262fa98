"""Launchers: they start the workers of a plan."""
