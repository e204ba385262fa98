"""Calling foundation models: desk, cassette, budget, backends and kinds of call."""
