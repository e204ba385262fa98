"""A study carried out: what it needs and takes, workers and their journals, progress on a screen."""
