"""Learners: they turn batches into parameter updates."""
