"""Embedders: models that map images and texts to vectors, one module per way of reaching them."""
