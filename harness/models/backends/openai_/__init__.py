"""Models behind an OpenAI-compatible server, hosted or self-run: the server and its three kinds of call."""
