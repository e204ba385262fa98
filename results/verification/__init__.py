"""Whether what others hand in holds: their checkpoints played again, a sample of their model calls asked again."""
