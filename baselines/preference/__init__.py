"""Shared parts of methods that learn a reward from preferences: segments, a reward ensemble, teachers, exploration."""
