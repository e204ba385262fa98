"""Agents: what a run is built from."""
