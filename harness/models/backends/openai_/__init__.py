"""Models behind an OpenAI-compatible server, a hosted one or one's own: the server, and the three calls put to it."""
