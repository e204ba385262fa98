"""Episodes that a run did not play itself: demonstrations of a suite's solver and datasets, kept by content."""
