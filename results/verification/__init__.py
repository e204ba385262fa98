"""Verification of submissions: evaluate their checkpoints again, and repeat a sample of their model calls."""
