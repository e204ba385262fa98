"""Guides: they turn the word of a model or a teacher into reward, labels, losses or relabelled data."""
