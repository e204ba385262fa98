"""Datasets that a run phase may store: episodes of a suite's scripted policies, and Minari datasets."""
