"""Tests run in one thread, as workers do: more threads change the last bits of sums."""

from tests.baselines.learners.conftest import one_thread

__all__ = ["one_thread"]
