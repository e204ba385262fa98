"""Learners, which turn batches into parameter updates."""
