"""Speed benchmarks against peer libraries: one module per question, run together by `python -m benchmarks`."""
