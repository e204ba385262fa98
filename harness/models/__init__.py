"""How foundation models are asked: desk, cassette, budget, backends and kinds of calls."""
