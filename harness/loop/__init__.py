"""One worker's work on one cell: the training loop, evaluation, probes, checkpoints and who answers in its roles."""
