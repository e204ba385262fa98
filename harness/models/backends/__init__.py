"""Backends: implementations that run a call, with a model on this machine or on a server."""
