"""Replays: they decide which stored transitions a batch holds."""
