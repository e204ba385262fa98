"""Teachers: they say which of two segments of behaviour is better."""
