"""Launchers, which start the workers of a plan."""
