"""Disturb real commands at moments that a seed draws, repeat them until they finish, and compare what they wrote."""
