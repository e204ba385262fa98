"""Trained runs played again: new evaluations, strips of frames, samples of what a judge is shown."""
