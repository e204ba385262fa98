"""Models that run here, by name or local path: loading, batching, and the kinds of call, a module each."""
