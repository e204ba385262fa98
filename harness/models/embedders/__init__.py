"""Embedders: the models that turn images and texts into vectors, by how they are reached."""
