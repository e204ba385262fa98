"""Every figure that a single GPU allows, in one command with a limit of time: `python -m benchmarks.gpu`."""
