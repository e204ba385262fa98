"""Tests, in the tree of the folders that they test."""
