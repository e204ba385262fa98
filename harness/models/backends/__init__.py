"""Backends: what carries a call to a model, on this machine or to a server."""
