"""Replays, which decide which stored transitions form a batch."""
