"""Datasets that a phase of a run may store: of a suite's scripted policies, and of Minari."""
