"""Episodes that a run does not collect itself: demonstrations of a suite's solver, and datasets; cached by content."""
