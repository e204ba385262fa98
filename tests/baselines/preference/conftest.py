"""As in a worker, one thread: more change the last bits of sums."""

from tests.baselines.learners.conftest import one_thread

__all__ = ["one_thread"]
