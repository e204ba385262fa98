"""Speed, measured beside peers: one module per question, run together by `python -m benchmarks`."""
