"""Guides, which turn answers of a model or a teacher into reward, labels, losses or relabelled data."""
