"""Local models that the workers of one command share: one process loads the weights, and model processes ask it."""
