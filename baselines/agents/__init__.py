"""Agents, which connect a run's learner, replay and guide to the training loop."""
