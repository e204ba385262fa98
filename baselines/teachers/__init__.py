"""Teachers, which state which of two segments of behaviour is better."""
