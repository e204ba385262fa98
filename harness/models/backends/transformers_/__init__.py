"""Models that run here, by name or local path: loading, batching, and the three calls, a module each."""
