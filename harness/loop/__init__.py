"""The work of one worker on one cell: training loop, evaluation, probes, checkpoints and question queues."""
