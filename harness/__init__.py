"""The engine: command line, configuration, registry, training loop, checkpoints, launchers, models and their calls."""

if __name__ != "guidebench.harness":  # importing it under two names would create two registries
    raise ImportError(f"this package is guidebench.harness; import it by that name, not as {__name__!r}")
