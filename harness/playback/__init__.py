"""Replays of trained runs: new evaluations, filmstrips, and sample frames of perturbations."""
