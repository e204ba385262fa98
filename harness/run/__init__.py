"""Execution of a study: estimates, checks, workers and their journals, and the display of progress."""
